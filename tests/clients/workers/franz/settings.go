package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is how to connect: files in PEM, one of Kafka's protocol names, and who one is.
type security struct {
	Protocol    string `json:"protocol"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

func (s security) tls() *tls.Config {
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		read, err := os.ReadFile(s.CA)
		check(err)
		trusted.RootCAs = x509.NewCertPool()
		if !trusted.RootCAs.AppendCertsFromPEM(read) {
			check(fmt.Errorf("no certificate in %s", s.CA))
		}
	}
	if s.Certificate != "" {
		shown, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		check(err)
		trusted.Certificates = []tls.Certificate{shown}
	}
	return trusted
}

func (s security) sasl() sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: s.Token}.AsMechanism()
	}
	check(fmt.Errorf("no such mechanism: %q", s.Mechanism))
	return nil
}

// common is what every client of a broker is told.
func common(given options) []kgo.Opt {
	known := []kgo.Opt{
		kgo.SeedBrokers(given.Bootstrap),
		kgo.ClientID(given.ClientID),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if given.Isolation == "read_committed" {
		known = append(known, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	switch given.Security.Protocol {
	case "", "PLAINTEXT":
	case "SSL":
		known = append(known, kgo.DialTLSConfig(given.Security.tls()))
	case "SASL_PLAINTEXT":
		known = append(known, kgo.SASL(given.Security.sasl()))
	case "SASL_SSL":
		known = append(known, kgo.DialTLSConfig(given.Security.tls()), kgo.SASL(given.Security.sasl()))
	default:
		check(fmt.Errorf("no such protocol: %q", given.Security.Protocol))
	}
	return known
}

// member is what a member of a group is told beside that.
func member(given options) []kgo.Opt {
	known := []kgo.Opt{
		kgo.ConsumerGroup(given.Group),
		kgo.RebalanceTimeout(time.Duration(given.RebalanceTimeoutMs) * time.Millisecond),
		kgo.DisableAutoCommit(),
	}
	if given.Regex {
		known = append(known, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+given.Topic+"$"))
	} else {
		known = append(known, kgo.ConsumeTopics(given.Topic))
	}
	if given.InstanceID != "" {
		known = append(known, kgo.InstanceID(given.InstanceID))
	}
	if given.Assignor == "consumer" {
		return append(known, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	balancer, exists := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}[given.Assignor]
	if !exists {
		check(fmt.Errorf("no such assignor: %q", given.Assignor))
	}
	session := time.Duration(given.SessionTimeoutMs) * time.Millisecond
	return append(known, kgo.Balancers(balancer), kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/6))
}
