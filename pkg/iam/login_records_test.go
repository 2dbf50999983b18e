package iam

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

type recorded struct {
	*objects[*iamapi.LoginRecord]
	list []*iamapi.LoginRecord
}

func (r *recorded) Create(ctx context.Context, o *iamapi.LoginRecord) (*iamapi.LoginRecord, error) {
	o, err := r.objects.Create(ctx, o)
	if err == nil {
		r.list = append(r.list, o)
	}
	return o, err
}

// withRecords gives a replica a book of records.
func withRecords(t *testing.T, d *doors) *recorded {
	t.Helper()
	api := &recorded{objects: newObjects(func() *iamapi.LoginRecord { return &iamapi.LoginRecord{} })}
	r, err := NewRecords(api, d.clock.now, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.all[0].Records = r
	return api
}

func TestLoginsOfUsersWhoExistAreTakenDown(t *testing.T) { // S58
	d := newDoors(t, 1)
	api := withRecords(t, d)
	ctx := t.Context()
	for _, a := range []Attempt{
		{Login: "alice@example.com", Password: secret, Origin: Origin{Source: home, UserAgent: "console"}},
		{Login: "alice", Password: "Wrong-123", Origin: Origin{Source: enemy}},
		{Login: "nobody", Password: "Wrong-123", Origin: Origin{Source: enemy}},
	} {
		_, _ = d.all[0].Password(ctx, a)
	}
	d.all[0].Records.flush(ctx)
	if len(api.list) != 2 {
		t.Fatalf("%d records", len(api.list))
	}
	good, bad := api.list[0], api.list[1]
	if good.GenerateName != "alice-" || good.Labels[iamapi.LabelUserReference] != "alice" || !good.Spec.Success || good.Spec.Type != iamapi.LoginToken ||
		good.Spec.SourceIP != home || good.Spec.UserAgent != "console" || good.Spec.Reason != "" {
		t.Errorf("%+v", good)
	}
	if bad.Spec.Success || bad.Spec.Reason != reasonWrong || bad.Spec.SourceIP != enemy {
		t.Errorf("%+v", bad)
	}
	for _, r := range api.list {
		if s := fmt.Sprintf("%+v", r); strings.Contains(s, secret) || strings.Contains(s, "Wrong-123") { // S57
			t.Errorf("a password is in %s", s)
		}
	}
}

func TestAnAttackFillsNoBooks(t *testing.T) { // S58
	d := newDoors(t, 1)
	api := withRecords(t, d)
	for i := range 2000 {
		_ = d.try(t, 0, "alice", "Wrong-123", fmt.Sprintf("198.51.100.%d", i%200))
	}
	for range 100 { // a robot that logs in all the time
		want(t, d.try(t, 0, "bob", secret, home), nil)
	}
	d.all[0].Records.flush(t.Context())
	if n := len(api.list); n != failuresMost+1 {
		t.Errorf("%d records", n)
	}
	d.clock.add(alike)
	want(t, d.try(t, 0, "bob", secret, home), nil)
	d.all[0].Records.flush(t.Context())
	if n := len(api.list); n != failuresMost+2 {
		t.Errorf("%d records", n)
	}
}

// U40: where records can't be written, logins neither fail nor wait.
func TestLoginsGoOnWithoutTheirRecords(t *testing.T) {
	for name, err := range map[string]error{
		"MissingCRD": apierrors.NewNotFound(schema.GroupResource{Resource: "loginrecords"}, ""),
		"Down":       errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, 1)
			api := withRecords(t, d)
			api.breakWith(err)
			for i := range 100 {
				want(t, d.try(t, 0, "alice", secret, fmt.Sprintf("192.0.2.%d", i)), nil)
			}
			d.all[0].Records.flush(t.Context())
			if n := api.count("create"); n != 1 {
				t.Errorf("%d attempts at an API that takes no records", n)
			}
			api.mend()
			d.clock.add(recordPause)
			want(t, d.try(t, 0, "alice", secret, home), nil)
			d.all[0].Records.flush(t.Context())
			if len(api.list) != 1 {
				t.Errorf("%d records once it takes them again", len(api.list))
			}
		})
	}
}

func TestAFullQueueHoldsUpNobodyAndRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{clock: &clock{t: start()}, all: []*Authenticator{{}}}
		api := withRecords(t, d)
		r, u := d.all[0].Records, &User{Name: "alice", UID: "uid-alice"}
		for i := range 2 * recordQueue {
			r.Add(u, iamapi.LoginToken, "", Origin{Source: fmt.Sprint(i)}, nil)
		}
		api.wait = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		cancel()
		<-done
		if len(api.list) != 0 {
			t.Errorf("%d records", len(api.list))
		}
	})
}
