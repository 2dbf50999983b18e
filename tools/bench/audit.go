package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// auditBatch events are recorded before the file is waited for, and auditBatches times so many in a round.
	auditBatch, auditBatches = 1000, 40
)

// audits measures what the audit at level Metadata costs: a page of ten of a replica that records into a file, next to one that does not;
// and how many events a core writes.
func (b *bench) audits(ctx context.Context) (figures []figure, err error) {
	folder, err := os.MkdirTemp(b.dir, "audit-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for audit logs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	plain, err := b.replicaAt(ctx)
	if err != nil {
		return nil, err
	}
	audited, err := b.replicaAt(ctx, "KUBESPHERE_AUDITING_ENABLE=true", "KUBESPHERE_AUDITING_LOGOPTIONS_PATH="+filepath.Join(folder, "requests.log"))
	if err != nil {
		return nil, err
	}
	figures, err = contest{
		name: "page-10-audited", conns: connections, product: side{target: audited, count: usual().page},
		yardstick: &side{target: plain, count: usual().page}, beside: "without-audit", measures: []measure{cpu("ratio <= 1.15")},
	}.run(ctx, b.rounds)
	if err != nil {
		return figures, err
	}
	written, err := b.auditFile(ctx, folder)
	return append(figures, written...), err
}

// replicaAt starts a replica that ends with the run, and returns a page of ten of it.
func (b *bench) replicaAt(ctx context.Context, env ...string) (target, error) {
	replica, err := b.stack.ReplicaWithEnv(ctx, env)
	if err != nil {
		return target{}, err
	}
	c := client{Server: replica.Server, token: b.client.token, pid: replica.PID}
	if err := b.awaitPods(ctx, c); err != nil {
		return target{}, err
	}
	return c.at(page10, http.StatusOK)
}

// auditFile measures, in this process, how many events the product writes into a file for each second of a core, next to what
// encoding/json and one write for each event do, which is how kube-apiserver writes its log.
func (b *bench) auditFile(ctx context.Context, folder string) ([]figure, error) {
	var ours, theirs []float64
	for range b.rounds {
		for _, side := range []struct {
			write func(context.Context, string) error
			rates *[]float64
		}{{writeAudit, &ours}, {writeMarshalled, &theirs}} {
			before, err := stack.CPU(os.Getpid())
			if err != nil {
				return nil, err
			}
			if err := side.write(ctx, folder); err != nil {
				return nil, err
			}
			after, err := stack.CPU(os.Getpid())
			if err != nil {
				return nil, err
			}
			*side.rates = append(*side.rates, auditBatch*auditBatches/(after-before).Seconds())
		}
	}
	return []figure{{name: "audit-events-per-cpu-second", unit: "events", value: median(ours), yardstick: "encoding-json", base: median(theirs),
		goal: ">= 20000 events"}}, nil
}

// writeAudit writes the events of a round by the product's own file.
func writeAudit(ctx context.Context, folder string) error {
	metrics, err := audit.NewMetrics(nil)
	if err != nil {
		return err
	}
	file, err := audit.NewFile(audit.FileOptions{Path: filepath.Join(folder, "events.log"), MaxSize: 100, MaxBackups: 1, Metrics: metrics,
		Now: time.Now})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { file.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	e := auditEvent()
	for range auditBatches {
		for range auditBatch - 1 {
			file.Record(e)
		}
		if err := file.Submit(e).Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeMarshalled writes the same events one by one.
func writeMarshalled(_ context.Context, folder string) (err error) {
	file, err := os.Create(filepath.Join(folder, "marshalled.log"))
	if err != nil {
		return fmt.Errorf("make a file for events: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	e := auditEvent()
	out := auditv1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"}, Level: e.Level, Stage: e.Stage, RequestURI: e.URI, Verb: e.Verb,
		SourceIPs: e.Sources, UserAgent: e.UserAgent, ObjectRef: &e.Object, ResponseStatus: &metav1.Status{Code: int32(e.Code)},
		RequestReceivedTimestamp: metav1.NewMicroTime(e.Received), StageTimestamp: metav1.NewMicroTime(e.At),
		Annotations: map[string]string{"authorization.k8s.io/decision": e.Decision, "authorization.k8s.io/reason": e.Reason},
	}
	out.AuditID = "00000000-0000-4000-8000-000000000000"
	out.User.Username, out.User.UID, out.User.Groups = e.Username, e.UID, e.Groups
	for range auditBatch * auditBatches {
		text, err := json.Marshal(&out)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		if _, err := file.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	return nil
}

// auditEvent is that of a page of pods.
func auditEvent() *audit.Event {
	now := time.Now()
	return &audit.Event{
		ID: "00000000-0000-4000-8000-000000000000", Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, URI: podLists, Verb: "list",
		UserAgent: "kubectl/v1.37.0 (linux/amd64)", Username: "admin", UID: "0a1b2c3d-0000-4000-8000-000000000001",
		Groups: []string{"dev", "system:authenticated"}, Sources: []string{"192.0.2.1"}, Code: http.StatusOK, Received: now, At: now,
		Object:   auditv1.ObjectReference{Resource: "pods", APIGroup: "resources.kubesphere.io", APIVersion: "v1alpha3"},
		Decision: "allow", Reason: "kapis:global:platform-admin",
	}
}
