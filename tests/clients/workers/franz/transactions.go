package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func transactional(given options) []kgo.Opt {
	return append(common(given),
		kgo.TransactionalID(given.TransactionalID),
		kgo.TransactionTimeout(time.Duration(given.TimeoutMs)*time.Millisecond))
}

// answer says how one command went: `ok`, `fenced why` or `failed why`.
func answer(err error) {
	switch {
	case err == nil:
		say("ok")
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		say("fenced " + strings.ReplaceAll(err.Error(), "\n", " "))
	default:
		say("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

// transact is a transactional producer that does what it is told, a line at a time: see TransactionalWorker.java.
func transact(given options) {
	client, err := kgo.NewClient(transactional(given)...)
	check(err)
	waits := context.Background()
	within, done := context.WithTimeout(waits, 30*time.Second)
	_, _, err = client.ProducerID(within)
	done()
	answer(err)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.SplitN(lines.Text(), " ", 4)
		switch words[0] {
		case "begin":
			answer(client.BeginTransaction())
		case "commit":
			answer(client.EndTransaction(waits, kgo.TryCommit))
		case "abort":
			answer(errors.Join(client.AbortBufferedRecords(waits), client.EndTransaction(waits, kgo.TryAbort)))
		case "send":
			partition, _ := strconv.Atoi(words[2])
			record := &kgo.Record{Topic: words[1], Partition: int32(partition), Value: []byte(words[3])}
			answer(client.ProduceSync(waits, record).FirstErr())
		case "offset":
			offset, _ := strconv.ParseInt(words[3], 10, 64)
			answer(commitInTransaction(waits, client, given.TransactionalID, words[1], words[2], offset))
		default:
			answer(fmt.Errorf("no such command: %q", words[0]))
		}
	}
	os.Exit(0) // without closing: a process that dies does not either
}

// commitInTransaction commits an offset of partition 0 for who is no member. The library does this for members alone
// (see `copyExactlyOnce`); its protocol goes this far, and a record must have been sent in the transaction.
func commitInTransaction(waits context.Context, client *kgo.Client, tid, group, topic string, offset int64) error {
	id, epoch, err := client.ProducerID(waits)
	if err != nil {
		return err
	}
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = append(metadata.Topics, asked)
	known, err := metadata.RequestWith(waits, client)
	if err != nil {
		return err
	}
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	of := kmsg.NewTxnOffsetCommitRequestTopic()
	of.Topic, of.TopicID = topic, known.Topics[0].TopicID
	of.Partitions = append(of.Partitions, partition)
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group = tid, group
	request.ProducerID, request.ProducerEpoch = id, epoch
	request.Generation = -1
	request.Topics = append(request.Topics, of)
	said, err := request.RequestWith(waits, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(said.Topics[0].Partitions[0].ErrorCode)
}

// copyExactlyOnce copies each record of one topic to another, with the offsets in the same transactions. Rebalances are
// not blocked meanwhile: End would wait for the revocation, and that for the end.
func copyExactlyOnce(given options) {
	session, err := kgo.NewGroupTransactSession(slices.Concat(transactional(given), member(given), []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	})...)
	check(err)
	leaving, leave := context.WithCancel(context.Background())
	var stall atomic.Bool
	go listen(leave, &stall)
	for leaving.Err() == nil {
		polling, done := context.WithTimeout(leaving, 50*time.Millisecond)
		records := session.PollRecords(polling, 50).Records()
		done()
		if len(records) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			emit("fatal", map[string]any{"error": err.Error()})
			break
		}
		for _, read := range records {
			session.Produce(leaving, &kgo.Record{Topic: given.To, Partition: read.Partition, Value: read.Value}, nil)
		}
		committed, err := session.End(context.Background(), kgo.TryCommit)
		switch {
		case err != nil:
			emit("copy_failed", map[string]any{"error": err.Error()})
		case committed:
			emit("copied", map[string]any{"count": len(records)})
		}
	}
	session.Close()
	emit("left", nil)
}
