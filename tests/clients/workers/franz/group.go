package main

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// listen reads commands from stdin; the end of it counts as `leave`.
func listen(leave context.CancelFunc, stall *atomic.Bool) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() == "stall" {
		stall.Store(true)
	}
	leave()
}

// numbers are the partitions of all topics, in order: a worker reads one topic.
func numbers(owned map[string][]int32) []int32 {
	found := []int32{}
	for _, of := range owned {
		found = append(found, of...)
	}
	slices.Sort(found)
	return found
}

// position is what has been read and not yet committed, by topic and partition.
type position struct {
	sync.Mutex
	next map[string]map[int32]kgo.EpochOffset
}

func (p *position) read(topic string, partition int32, next kgo.EpochOffset) {
	p.Lock()
	defer p.Unlock()
	if p.next[topic] == nil {
		p.next[topic] = map[int32]kgo.EpochOffset{}
	}
	p.next[topic][partition] = next
}

func (p *position) take() map[string]map[int32]kgo.EpochOffset {
	p.Lock()
	defer p.Unlock()
	taken := p.next
	p.next = map[string]map[int32]kgo.EpochOffset{}
	return taken
}

// giveBack keeps what was refused for the next time, where nothing newer has been read.
func (p *position) giveBack(refused map[string]map[int32]kgo.EpochOffset) {
	p.Lock()
	defer p.Unlock()
	for topic, of := range refused {
		kept := maps.Clone(of)
		maps.Copy(kept, p.next[topic])
		p.next[topic] = kept
	}
}

func (p *position) forget(lost map[string][]int32) {
	p.Lock()
	defer p.Unlock()
	for topic, of := range lost {
		for _, partition := range of {
			delete(p.next[topic], partition)
		}
	}
}

func (p *position) commit(client *kgo.Client) {
	offsets := p.take()
	shown := map[string]int64{}
	for _, of := range offsets {
		for partition, next := range of {
			shown[strconv.Itoa(int(partition))] = next.Offset
		}
	}
	if len(shown) == 0 {
		return
	}
	emit("committing", map[string]any{"offsets": shown})
	var refused error
	client.CommitOffsetsSync(context.Background(), offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			refused = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					refused = errors.Join(refused, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	if refused != nil {
		emit("commit_failed", map[string]any{"offsets": shown, "error": refused.Error()})
		p.giveBack(offsets)
		return
	}
	emit("committed", map[string]any{"offsets": shown})
}

// consume is a consumer in a group that commits what it has read.
func consume(given options) {
	read := &position{next: map[string]map[int32]kgo.EpochOffset{}}
	callbacks := []kgo.Opt{
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, came map[string][]int32) {
			id, generation := client.GroupMetadata()
			emit("assigned", map[string]any{"partitions": numbers(came), "generation": generation, "member_id": id})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, gone map[string][]int32) {
			read.commit(client)
			read.forget(gone)
			emit("revoked", map[string]any{"partitions": numbers(gone)})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			read.forget(gone)
			emit("revoked", map[string]any{"partitions": numbers(gone), "lost": true})
		}),
	}
	client, err := kgo.NewClient(slices.Concat(common(given), member(given), callbacks)...)
	check(err)
	leaving, leave := context.WithCancel(context.Background())
	var stall atomic.Bool
	go listen(leave, &stall)
	every := time.Duration(given.CommitEveryMs) * time.Millisecond
	commitAt := time.Now().Add(every)
	for leaving.Err() == nil {
		polling, done := context.WithTimeout(leaving, 50*time.Millisecond)
		fetches := client.PollRecords(polling, 500)
		done()
		// Between a poll that found something and AllowRebalance, where nothing is given up.
		if fetches.NumRecords() > 0 && stall.CompareAndSwap(true, false) {
			emit("stalls", nil)
			time.Sleep(time.Duration(given.StallMs) * time.Millisecond)
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				emit("fetch_failed", map[string]any{"error": err.Error()})
			}
		})
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) { emitReads(fetched, read) })
		if time.Now().After(commitAt) {
			read.commit(client)
			commitAt = time.Now().Add(every)
		}
		client.AllowRebalance()
	}
	read.commit(client)
	client.CloseAllowingRebalance()
	emit("left", nil)
}

// emitReads prints `read`, cut where offsets do not follow each other.
func emitReads(fetched kgo.FetchTopicPartition, read *position) {
	records := fetched.Records
	for first := 0; first < len(records); {
		last := first
		for last+1 < len(records) && records[last+1].Offset == records[last].Offset+1 {
			last++
		}
		emit("read", map[string]any{
			"partition": fetched.Partition, "first": records[first].Offset, "last": records[last].Offset,
		})
		first = last + 1
	}
	if len(records) > 0 {
		newest := records[len(records)-1]
		read.read(newest.Topic, newest.Partition, kgo.EpochOffset{Epoch: newest.LeaderEpoch, Offset: newest.Offset + 1})
	}
}
