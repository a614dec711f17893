// Transactions as fast as a library of a user's can: franz-go's, with the transactions of KIP-890 and without lingering.
//
//	transactional write BOOTSTRAP TOPIC PID PRODUCERS PARTITIONS WARM_S SECONDS
//	transactional copy BOOTSTRAP FROM TO WARM COUNT
//
// `write`: each of so many producers writes one record to each of so many partitions of its own, commits, and begins
// anew. `copy`: one record at a time is written, read by a group, copied with its offset in one transaction, and read
// by who reads committed records: from one end to the other. It prints one JSON object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const ticksPerSecond = 100 // of /proc

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	check(err)
	return value
}

func client(bootstrap string, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(slices.Concat(common(bootstrap), more)...)
	check(err)
	return made
}

func common(bootstrap string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ProducerLinger(0),
		kgo.TransactionTimeout(time.Minute),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
}

// cpu is what a process has used so far, user and system.
func cpu(pid int) float64 {
	read, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(err)
	_, rest, _ := strings.Cut(string(read), ") ")
	fields := strings.Fields(rest)
	return float64(number(fields[11])+number(fields[12])) / ticksPerSecond
}

func percentile(sorted []time.Duration, share float64) float64 {
	return float64(sorted[int(float64(len(sorted)-1)*share)].Microseconds()) / 1000
}

func show(times []time.Duration, facts map[string]any) {
	slices.Sort(times)
	facts["p50_ms"], facts["p99_ms"] = percentile(times, 0.5), percentile(times, 0.99)
	check(json.NewEncoder(os.Stdout).Encode(facts))
}

func write(bootstrap, topic string, pid, producers, partitions int, warm, length time.Duration) {
	value := make([]byte, 100)
	began := time.Now()
	from, until := began.Add(warm), began.Add(warm+length)
	var lock sync.Mutex
	var times []time.Duration
	var writing sync.WaitGroup
	for producer := range producers {
		writing.Go(func() {
			writer := client(bootstrap, kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, producer)))
			var own []time.Duration
			for at := time.Now(); at.Before(until); at = time.Now() {
				check(writer.BeginTransaction())
				records := make([]*kgo.Record, partitions)
				for n := range partitions {
					records[n] = &kgo.Record{Topic: topic, Partition: int32(producer*partitions + n), Value: value}
				}
				check(writer.ProduceSync(context.Background(), records...).FirstErr())
				check(writer.EndTransaction(context.Background(), kgo.TryCommit))
				if at.After(from) {
					own = append(own, time.Since(at))
				}
			}
			lock.Lock()
			times = append(times, own...)
			lock.Unlock()
		})
	}
	time.Sleep(time.Until(from))
	before := cpu(pid)
	time.Sleep(time.Until(until))
	used := cpu(pid) - before
	writing.Wait()
	count := float64(len(times))
	show(times, map[string]any{"per_s": count / length.Seconds(), "cpu_us": used / count * 1e6})
}

func copyOver(bootstrap, from, to string, warm, count int) {
	waits := context.Background()
	source := client(bootstrap)
	sink := client(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{to: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	session, err := kgo.NewGroupTransactSession(slices.Concat(common(bootstrap), []kgo.Opt{
		kgo.TransactionalID(to), kgo.ConsumerGroup(to), kgo.ConsumeTopics(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	})...)
	check(err)
	go func() {
		for {
			records := session.PollFetches(waits).Records()
			if len(records) == 0 {
				continue
			}
			check(session.Begin())
			for _, read := range records {
				session.Produce(waits, &kgo.Record{Topic: to, Value: read.Value}, nil)
			}
			_, err := session.End(waits, kgo.TryCommit)
			check(err)
		}
	}()
	var times []time.Duration
	for n := range warm + count {
		at := time.Now()
		check(source.ProduceSync(waits, &kgo.Record{Topic: from, Value: []byte(strconv.Itoa(n))}).FirstErr())
		for seen := ""; seen != strconv.Itoa(n); {
			for _, read := range sink.PollFetches(waits).Records() {
				seen = string(read.Value)
			}
		}
		if n >= warm {
			times = append(times, time.Since(at))
		}
	}
	show(times, map[string]any{})
}

func main() {
	words := os.Args[2:]
	switch os.Args[1] {
	case "write":
		seconds := func(word string) time.Duration {
			length, err := time.ParseDuration(word + "s")
			check(err)
			return length
		}
		write(words[0], words[1], number(words[2]), number(words[3]), number(words[4]), seconds(words[5]), seconds(words[6]))
	case "copy":
		copyOver(words[0], words[1], words[2], number(words[3]), number(words[4]))
	}
}
