package login_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/loginrecord"
)

type recorded struct {
	*iamtest.Objects[*iamapi.LoginRecord]
	list []*iamapi.LoginRecord
}

func (r *recorded) Create(ctx context.Context, o *iamapi.LoginRecord) (*iamapi.LoginRecord, error) {
	o, err := r.Objects.Create(ctx, o)
	if err == nil {
		r.list = append(r.list, o)
	}
	return o, err
}

// withRecords adds a recorder of logins to a replica.
func withRecords(t *testing.T, d *doors) *recorded {
	t.Helper()
	api := &recorded{Objects: iamtest.NewObjects(func() *iamapi.LoginRecord { return &iamapi.LoginRecord{} })}
	r, err := loginrecord.New(api, d.clock.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.all[0].Records = r
	return api
}

// written writes the records that are queued.
func written(ctx context.Context, r login.Recorder) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	r.(*loginrecord.Recorder).Run(ctx)
}

func TestLoginsOfUsersWhoExistAreTakenDown(t *testing.T) { // S58
	d := newDoors(t, 1)
	api := withRecords(t, d)
	ctx := t.Context()
	for _, a := range []login.Attempt{
		{Login: "alice@example.com", Password: iamtest.Password, Origin: iam.Origin{Source: home, UserAgent: "console"}},
		{Login: "alice", Password: "Wrong-123", Origin: iam.Origin{Source: enemy}},
		{Login: "nobody", Password: "Wrong-123", Origin: iam.Origin{Source: enemy}},
	} {
		_, _ = d.all[0].Password(ctx, a)
	}
	written(ctx, d.all[0].Records)
	if len(api.list) != 2 {
		t.Fatalf("%d records", len(api.list))
	}
	good, bad := api.list[0], api.list[1]
	if good.GenerateName != "alice-" || good.Labels[iamapi.LabelUserReference] != "alice" || !good.Spec.Success || good.Spec.Type != iamapi.LoginToken ||
		good.Spec.SourceIP != home || good.Spec.UserAgent != "console" || good.Spec.Reason != "authenticated successfully" {
		t.Errorf("%+v", good)
	}
	if bad.Spec.Success || bad.Spec.Reason != "wrong password or code" || bad.Spec.SourceIP != enemy {
		t.Errorf("%+v", bad)
	}
	for _, r := range api.list {
		if s := fmt.Sprintf("%+v", r); strings.Contains(s, iamtest.Password) || strings.Contains(s, "Wrong-123") { // S57
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
	for range 100 { // a script that logs in all the time
		iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, home), nil)
	}
	written(t.Context(), d.all[0].Records)
	if n := len(api.list); n != 20+1 {
		t.Errorf("%d records", n)
	}
	d.clock.Step(10 * time.Second)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, home), nil)
	written(t.Context(), d.all[0].Records)
	if n := len(api.list); n != 20+2 {
		t.Errorf("%d records", n)
	}
}

// If records can't be written, logins neither fail nor wait.
func TestLoginsGoOnWithoutTheirRecords(t *testing.T) {
	for name, err := range map[string]error{
		"MissingCRD": apierrors.NewNotFound(schema.GroupResource{Resource: "loginrecords"}, ""),
		"Down":       errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, 1)
			api := withRecords(t, d)
			api.BreakWith(err)
			for i := range 100 {
				iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, fmt.Sprintf("192.0.2.%d", i)), nil)
			}
			written(t.Context(), d.all[0].Records)
			if n := api.Count("create"); n != 1 {
				t.Errorf("%d attempts at an API that takes no records", n)
			}
			api.Mend()
			d.clock.Step(10 * time.Second)
			iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
			written(t.Context(), d.all[0].Records)
			if len(api.list) != 1 {
				t.Errorf("%d records once it takes them again", len(api.list))
			}
		})
	}
}

func TestAFullQueueHoldsUpNobodyAndRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{clock: clocktesting.NewFakeClock(iamtest.Start()), all: []*login.Authenticator{{}}}
		api := withRecords(t, d)
		r, u := d.all[0].Records.(*loginrecord.Recorder), &iam.User{Name: "alice", UID: "uid-alice"}
		for i := range 2 * 4096 {
			r.Add(u, iamapi.LoginToken, "", iam.Origin{Source: fmt.Sprint(i)}, nil)
		}
		api.Wait = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
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
