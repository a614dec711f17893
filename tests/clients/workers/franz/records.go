package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// numbered is the record number i, as common.py makes it.
func numbered(topic string, i int) *kgo.Record {
	made := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
	if i%7 != 0 {
		made.Key = fmt.Appendf(nil, "key-%d", i)
	}
	if i%101 != 0 || made.Key == nil {
		text := fmt.Sprintf("value-%d ", i)
		size := i * 37 % 300
		made.Value = []byte(strings.Repeat(text, size/len(text)+1)[:size])
	}
	if i%5 == 0 {
		made.Headers = []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(i))}, {Key: "empty", Value: []byte{}}}
	}
	return made
}

// produce writes the records to each topic, with the codec that belongs to it.
func produce(given options) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for topic, codec := range given.Topics {
		client, err := kgo.NewClient(append(common(given), kgo.ProducerBatchCompression(codecs[codec]))...)
		check(err)
		for i := range given.Count {
			client.Produce(context.Background(), numbered(topic, i), func(_ *kgo.Record, err error) { check(err) })
		}
		check(client.Flush(context.Background()))
		client.Close()
		emit("produced", map[string]any{"topic": topic, "count": given.Count})
	}
}

type digest struct {
	hash.Hash
	count int
}

func (d *digest) piece(content []byte) {
	size := int32(-1)
	if content != nil {
		size = int32(len(content))
	}
	binary.Write(d, binary.BigEndian, size)
	d.Write(content)
}

func (d *digest) add(read *kgo.Record) {
	binary.Write(d, binary.BigEndian, read.Timestamp.UnixMilli())
	d.piece(read.Key)
	d.piece(read.Value)
	for _, header := range read.Headers {
		d.piece([]byte(header.Key))
		d.piece(header.Value)
	}
	binary.Write(d, binary.BigEndian, int32(len(read.Headers)))
	d.count++
}

// read reads each topic from the start, as many records as there should be, and prints digests.
func read(given options) {
	for topic := range given.Topics {
		client, err := kgo.NewClient(append(common(given), kgo.ConsumeTopics(topic))...)
		check(err)
		var digests [partitions]digest
		for i := range digests {
			digests[i].Hash = sha256.New()
		}
		for left := given.Count; left > 0; {
			fetches := client.PollFetches(context.Background())
			fetches.EachError(func(_ string, _ int32, err error) { check(err) })
			fetches.EachRecord(func(read *kgo.Record) {
				digests[read.Partition].add(read)
				left--
			})
		}
		client.Close()
		shown := map[string]any{}
		for i := range digests {
			shown[strconv.Itoa(i)] = []any{digests[i].count, hex.EncodeToString(digests[i].Sum(nil))}
		}
		emit("digest", map[string]any{"topic": topic, "partitions": shown})
	}
}
