package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"kapis.dev/ks-apiserver/tools/pace"
)

const (
	usersPath = "/apis/iam.kubesphere.io/v1beta1/users"
	password  = "Secret-123"
)

// alice and bob are users whom no test changes. alice is logged in in the browser that tests share (here); bob logs in elsewhere, where
// somebody has to: who has too many sessions loses the oldest, and alice's is the oldest that she has.
const (
	alice = "alice"
	bob   = "bob"
)

var administrator string

// admin is an access token of the platform's administrator.
func admin(t *testing.T) string {
	t.Helper()
	return administrator
}

var serial atomic.Int64

// unique returns a name that no other test uses.
func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, serial.Add(1)) }

// cheapHash is password as a hash that costs little to compare: the race detector makes dear ones very dear.
var cheapHash = sync.OnceValue(func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(hash)
})

// makeUser makes a user, and returns once he can log in.
func makeUser(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"email": name + "@example.com", "displayName": "Somebody", "password": cheapHash()}})
	if err != nil {
		return err
	}
	a, err := try(ctx, http.MethodPost, issuer+usersPath, string(body), "Content-Type: application/json", "Authorization: Bearer "+administrator)
	if err == nil && a.status != http.StatusCreated {
		err = fmt.Errorf("make user %s: %d %s", name, a.status, clip(a.body))
	}
	if err != nil {
		return err
	}
	type person struct {
		Metadata struct{ UID string }
		Status   struct{ State string }
	}
	made := person{}
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.Metadata.UID == "" {
		return fmt.Errorf("make user %s: %w: %s", name, err, clip(a.body))
	}
	// Looked at where the login looks, and not tried: attempts that come before the user is known there count as wrong ones.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return pace.Until(ctx, patience, func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, issuer+"/kapis"+strings.TrimPrefix(usersPath, "/apis")+"/"+name, nil, "Authorization: Bearer "+administrator)
		if err != nil {
			return err
		}
		u := person{}
		_ = json.Unmarshal([]byte(a.body), &u)
		if u.Status.State != "Active" || u.Metadata.UID != made.Metadata.UID { // one of this name may have been deleted a moment ago
			return fmt.Errorf("user %s is %q: %d", name, u.Status.State, a.status)
		}
		return nil
	})
}

// newUser makes a user for one test.
func newUser(t *testing.T, prefix string) (name string) {
	t.Helper()
	name = unique(prefix)
	if err := makeUser(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = try(context.Background(), http.MethodDelete, issuer+usersPath+"/"+name, nil, "Authorization: Bearer "+administrator)
	})
	return name
}

// patchUser changes a user as the administrator; patch is a JSON merge patch.
func patchUser(t *testing.T, name, patch string) {
	t.Helper()
	call(
		t,
		http.MethodPatch,
		issuer+usersPath+"/"+name,
		patch,
		"Content-Type: application/merge-patch+json",
		"Authorization: Bearer "+admin(t),
	).must(t, http.StatusOK)
}

// uidOf returns the UID of a user.
func uidOf(t *testing.T, name string) string {
	t.Helper()
	metadata, _ := get(t, usersPath+"/"+name, admin(t)).must(t, http.StatusOK).object()["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	return uid
}

// logIn logs a user in, in a browser of his own.
func logIn(t *testing.T, name string) *browser {
	t.Helper()
	b := newBrowser(t)
	p := b.login(t, b.open(t, "/oauth/login").shows(t, http.StatusOK, "Log in"), name, password)
	p.shows(t, http.StatusOK, "Your account")
	return b
}

var aliceHere *browser

// here is a browser in which alice is logged in. No test logs her out there.
func here(t *testing.T) *browser {
	t.Helper()
	if aliceHere == nil || aliceHere.open(t, "/oauth/account").heading() != "Your account" {
		aliceHere = logIn(t, alice)
	}
	return aliceHere
}

// furnish makes what the tests share: clients and alice.
func furnish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	in, err := product.Login(ctx, "admin", product.AdminPassword)
	if err != nil {
		return err
	}
	administrator = in.Access
	for _, c := range []client{harbor, portal, desk, asking, refused} {
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	// The path me has a part of kube-apiserver's, which is read when somebody asks for it first.
	ready := pace.Until(ctx, patience, func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, issuer+me, nil, "Authorization: Bearer "+administrator)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", me, a.status, clip(a.body))
		}
		return err
	})
	return errors.Join(ready, makeUser(ctx, alice), makeUser(ctx, bob))
}
