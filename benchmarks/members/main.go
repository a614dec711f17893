// Members of one group of the consumer protocol, as many as are asked for, over 16 connections.
//
//	members BOOTSTRAP TOPIC GROUP MEMBERS
//
// They join, take what they are given and give up what they are to give up, and heartbeat at once for as long as they
// are not where the group is: what is measured is the broker, not an interval. Then one leaves. It prints one JSON object
// with three times: until all are members, until all are at one epoch and own each partition once, and until they are
// again when one has left; and the longest that one heartbeat took in each.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const connections, inFlight = 16, 256

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type member struct {
	client *kgo.Client
	id     string
	epoch  int32
	owned  []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic
	told   bool // the broker knows what it owns
}

func (m *member) partitions() int {
	count := 0
	for _, topic := range m.owned {
		count += len(topic.Partitions)
	}
	return count
}

// beat sends one heartbeat; a member that is to leave gives epoch -1.
func (m *member) beat(topic, group string, leave bool) {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Group, request.MemberID, request.MemberEpoch = group, m.id, m.epoch
	if leave {
		request.MemberEpoch = -1
	}
	if m.epoch == 0 {
		request.RebalanceTimeoutMillis = 60_000
		request.SubscribedTopicNames = []string{topic}
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	} else if !m.told {
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, one := range m.owned {
			owned := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			owned.TopicID, owned.Partitions = one.TopicID, one.Partitions
			request.Topics = append(request.Topics, owned)
		}
	}
	m.told = true
	for {
		answer, err := request.RequestWith(context.Background(), m.client)
		check(err)
		err = kerr.ErrorForCode(answer.ErrorCode)
		if kerr.IsRetriable(err) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		check(err)
		m.epoch = answer.MemberEpoch
		if answer.Assignment != nil {
			m.owned, m.told = answer.Assignment.Topics, false
		}
		return
	}
}

// everybody has each member do something, so many at a time; the longest that one took.
func everybody(members []*member, act func(*member)) time.Duration {
	var longest atomic.Int64
	var working sync.WaitGroup
	waiting := make(chan *member)
	for range inFlight {
		working.Go(func() {
			for one := range waiting {
				began := time.Now()
				act(one)
				took := int64(time.Since(began))
				for seen := longest.Load(); took > seen && !longest.CompareAndSwap(seen, took); seen = longest.Load() {
				}
			}
		})
	}
	for _, one := range members {
		waiting <- one
	}
	close(waiting)
	working.Wait()
	return time.Duration(longest.Load())
}

// settle goes on until all members are at one epoch, above the given one, and own all partitions together.
func settle(members []*member, topic, group string, above int32, partitions int) time.Duration {
	longest := time.Duration(0)
	for {
		longest = max(longest, everybody(members, func(one *member) { one.beat(topic, group, false) }))
		epoch, owned, same := members[0].epoch, 0, true
		for _, one := range members {
			same = same && one.epoch == epoch && one.told
			owned += one.partitions()
		}
		if same && epoch > above && owned == partitions {
			return longest
		}
	}
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	clients := make([]*kgo.Client, connections)
	for n := range clients {
		clients[n], err = kgo.NewClient(kgo.SeedBrokers(bootstrap))
		check(err)
	}
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = append(metadata.Topics, asked)
	known, err := metadata.RequestWith(context.Background(), clients[0])
	check(err)
	partitions := len(known.Topics[0].Partitions)
	members := make([]*member, count)
	for n := range members {
		members[n] = &member{client: clients[n%connections], id: fmt.Sprintf("%s-%d", group, n)}
	}
	facts := map[string]any{}
	took := func(name string, began time.Time, longest time.Duration) {
		facts[name+"_s"], facts[name+"_longest_ms"] = time.Since(began).Seconds(), float64(longest.Microseconds())/1000
	}
	began := time.Now()
	took("join", began, everybody(members, func(one *member) { one.beat(topic, group, false) }))
	took("settle", began, settle(members, topic, group, 0, partitions))
	began = time.Now()
	epoch := members[0].epoch
	members[0].beat(topic, group, true)
	took("lose", began, settle(members[1:], topic, group, epoch, partitions))
	// The group is not to be held up by members that nobody plays any more.
	everybody(members[1:], func(one *member) { one.beat(topic, group, true) })
	check(json.NewEncoder(os.Stdout).Encode(facts))
}
