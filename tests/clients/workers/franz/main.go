// franz-go as a scripted client: the events and commands of common.py, and of TransactionalWorker.java.
//
// Its argument is one JSON object; `mode` says what it does: group, produce, read, transactional, copy or say.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

const partitions = 6

type options struct {
	Mode               string            `json:"mode"`
	Bootstrap          string            `json:"bootstrap"`
	ClientID           string            `json:"client_id"`
	Security           security          `json:"security"`
	Topic              string            `json:"topic"`
	Regex              bool              `json:"regex"` // subscribed by ^topic$
	Group              string            `json:"group"`
	Assignor           string            `json:"assignor"` // `consumer` is group.protocol=consumer
	InstanceID         string            `json:"instance_id"`
	SessionTimeoutMs   int               `json:"session_timeout_ms"`
	RebalanceTimeoutMs int               `json:"rebalance_timeout_ms"`
	CommitEveryMs      int               `json:"commit_every_ms"`
	StallMs            int               `json:"stall_ms"`
	Topics             map[string]string `json:"topics"` // and the codec of each
	Count              int               `json:"count"`
	Isolation          string            `json:"isolation"`
	TransactionalID    string            `json:"transactional_id"`
	TimeoutMs          int               `json:"timeout_ms"`
	To                 string            `json:"to"` // where `copy` writes
}

var (
	told   = bufio.NewWriter(os.Stdout)
	toldMu sync.Mutex
)

// emit prints one event with the machine's monotonic clock, as Python's time.monotonic_ns.
func emit(event string, facts map[string]any) {
	var now syscall.Timespec
	const clockMonotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	line := map[string]any{"event": event, "t": now.Nano()}
	maps.Copy(line, facts)
	printed, err := json.Marshal(line)
	check(err)
	say(string(printed))
}

func say(line string) {
	toldMu.Lock()
	defer toldMu.Unlock()
	told.WriteString(line + "\n")
	told.Flush()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var given options
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	run, known := map[string]func(options){
		"group":         consume,
		"produce":       produce,
		"read":          read,
		"transactional": transact,
		"copy":          copyExactlyOnce,
		"say":           sayEach,
	}[given.Mode]
	if !known {
		check(fmt.Errorf("no such mode: %q", given.Mode))
	}
	run(given)
}
