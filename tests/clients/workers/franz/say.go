package main

import (
	"bufio"
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sayEach writes a record for each line that it reads, and tells what came of it.
func sayEach(given options) {
	client, err := kgo.NewClient(append(common(given), kgo.RequestRetries(1), kgo.RecordRetries(1))...)
	check(err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := client.Ping(within)
		if err == nil {
			err = client.ProduceSync(within, &kgo.Record{Topic: given.Topic, Value: lines.Bytes()}).FirstErr()
		}
		cancel()
		if err != nil {
			emit("refused", map[string]any{"error": err.Error()})
		} else {
			emit("said", nil)
		}
	}
	client.Close()
}
