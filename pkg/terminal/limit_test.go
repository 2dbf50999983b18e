package terminal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/terminal"
)

func TestTooManyTerminalsAreRefused(t *testing.T) { // O6
	now := time.Now()
	l := terminal.NewLimiter(terminal.Limits{PerUser: 2, Total: 3, Openings: 3, Window: 10 * time.Second}, func() time.Time { return now })
	enter := func(user, refusal string) func() {
		t.Helper()
		leave, err := l.Enter(user)
		switch {
		case refusal == "" && err != nil:
			t.Fatalf("%s: %v", user, err)
		case refusal != "" && (!apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), refusal)):
			t.Fatalf("%s: %v, want %q", user, err, refusal)
		}
		return leave
	}
	first := enter("ann", "")
	second := enter("ann", "")
	enter("ann", "as many as one may have")
	enter("bob", "")
	enter("cat", "as many as it takes")
	first()
	first() // once
	if n := l.Open(); n != 2 {
		t.Errorf("%d are open", n)
	}
	third := enter("ann", "")
	second()
	third()
	_, err := l.Enter("ann")
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 10 || !strings.Contains(err.Error(), "within 10s") {
		t.Errorf("%v, %d", err, seconds)
	}
	now = now.Add(9500 * time.Millisecond)
	if seconds, _ := apierrors.SuggestsClientDelay(func() error { _, err := l.Enter("ann"); return err }()); seconds != 1 {
		t.Errorf("%d", seconds)
	}
	now = now.Add(500 * time.Millisecond)
	enter("ann", "")()
}

func TestUsersThatCountNoMoreAreForgotten(t *testing.T) { // O6
	now := time.Now()
	l := terminal.NewLimiter(terminal.Limits{PerUser: 1, Total: 1 << 20, Openings: 1, Window: time.Second}, func() time.Time { return now })
	kept, err := l.Enter("kept")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		now = now.Add(time.Second)
		leave, err := l.Enter(fmt.Sprint("user-", i))
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if n := l.Users(); n > 1025 {
		t.Errorf("%d users are remembered", n)
	}
	if _, err := l.Enter("kept"); err == nil {
		t.Error("a user with an open terminal was forgotten")
	}
	kept()
}

func TestServiceAccountsOfANamespaceCountAsOneUser(t *testing.T) { // O6
	l := terminal.NewLimiter(terminal.UploadLimits, time.Now)
	for _, account := range []string{"one", "two", "three"} {
		if _, err := l.Enter("system:serviceaccount:shop:" + account); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.Enter("system:serviceaccount:shop:four")
	const want = `the service accounts of namespace "shop" have 3 uploads open`
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, other := range []string{"ann", "system:serviceaccount:shop-2:one"} {
		if _, err := l.Enter(other); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// Whoever may create namespaces has as many users of service accounts as they create.
func TestServiceAccountsLeaveHalfToOthers(t *testing.T) { // O6
	l := terminal.NewLimiter(terminal.Limits{PerUser: 3, Total: 10, Openings: 10, Window: time.Second, Of: "uploads"}, time.Now)
	enter := func(user string) (leave func()) {
		t.Helper()
		leave, err := l.Enter(user)
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		return leave
	}
	account := func(namespace int) string { return fmt.Sprintf("system:serviceaccount:shop-%d:robot", namespace) }
	leave := enter(account(0))
	for namespace := range 4 {
		enter(account(namespace))
	}
	for _, one := range []string{account(4), "kubesphere:serviceaccount:shop-5:robot"} {
		const want = "service accounts have 5 uploads open"
		if _, err := l.Enter(one); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", one, err, want)
		}
	}
	for range 3 {
		enter("ann")
	}
	enter("bob")
	leave()
	leave() // once
	enter(account(4))
	if _, err := l.Enter(account(5)); !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v after one has left, want one more alone", err)
	}
	enter("bob")
}

// Where there is one for all, a service account may have it.
func TestTheHalfOfOneIsOne(t *testing.T) { // O6
	l := terminal.NewLimiter(terminal.Limits{PerUser: 1, Total: 1, Openings: 10, Window: time.Second}, time.Now)
	if _, err := l.Enter("system:serviceaccount:shop:robot"); err != nil {
		t.Error(err)
	}
}
