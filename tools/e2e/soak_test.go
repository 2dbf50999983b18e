package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Sessions, the limit on guesses, and the clients and identity providers that are read again, all at once, for some thousand requests: a server with the race
// detector (`make test` has it) ends with success, having told of no race, and nobody is let in who should not be or turned away who should.
func TestEverythingThatIsSharedIsUsedAtOnce(t *testing.T) {
	proves(t, "S61")
	var log printed
	server, err := product.LoggedReplica(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(server.Stop)
	t.Cleanup(func() { _ = stop() })
	name, provider, page := unique("soaked"), unique("reloaded"), unique("renewed")
	newUser(t, name)
	at := func(c caller) caller { return caller{server.URL, c.token} }
	a := at(admin(t))
	eventually(t, "the user is known", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, server.URL, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	const workers = 6
	var all sync.WaitGroup
	repeat := func(times int, f func(ctx context.Context, i int) error) {
		all.Go(func() {
			for i := range times {
				if err := f(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for worker := range workers {
		repeat(5, func(ctx context.Context, _ int) error { return useALogin(ctx, server.URL, name) })
		repeat(10, func(ctx context.Context, i int) error { // guesses: at one who is there, and at nobody
			r, err := passwordGrant(ctx, server.URL, fmt.Sprintf("guessed-%d-%d", worker, i%3), "Wrong-123")
			return wantCode(r, err, http.StatusBadRequest, http.StatusTooManyRequests)
		})
		repeat(100, func(ctx context.Context, i int) error {
			return a.is(http.StatusOK, http.MethodGet, []string{kapis + "/namespaces?limit=3", "/kapis/config.kubesphere.io/v1alpha2/configs/oauth", providersPath,
				iamRoutes + "/users?limit=5", "/readyz?verbose", "/metrics"}[i%6])(ctx)
		})
		repeat(50, func(ctx context.Context, _ int) error {
			return caller{base: server.URL, token: "a.b.c"}.is(http.StatusUnauthorized, http.MethodGet, kapis+"/pods")(ctx)
		})
	}
	for kind, object := range map[string]func(i int) obj{
		provider: func(i int) obj {
			return providerSecret(provider, fmt.Sprintf("name: %s\ntype: LDAPIdentityProvider\nmappingMethod: auto\ndisabled: %v\n"+
				"provider: {host: '127.0.0.1:%d', managerDN: cn=x, managerPassword: of-nobody, userSearchBase: dc=x, loginAttribute: uid}\n", provider, i%3 == 0, 1+i))
		},
		page: func(i int) obj {
			return obj{"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/oauthclient", "metadata": obj{"name": page,
				"labels": obj{"config.kubesphere.io/type": "oauthclient"}},
				"stringData": obj{"configuration.yaml": fmt.Sprintf("name: %s\ngrantMethod: auto\nredirectURIs: [https://a%d.example/x]\n", page, i)}}
		},
	} {
		repeat(15, func(ctx context.Context, i int) error { // made, changed, and deleted again and again
			r, err := a.do(ctx, http.MethodPost, secretsPath, object(i))
			if err := wantCode(r, err, http.StatusCreated); err != nil {
				return err
			}
			r, err = a.do(ctx, http.MethodPatch, secretsPath+"/"+kind, obj{"stringData": object(i + 1)["stringData"]}, "Content-Type: application/merge-patch+json")
			if err := wantCode(r, err, http.StatusOK); err != nil {
				return err
			}
			r, err = a.do(ctx, http.MethodDelete, secretsPath+"/"+kind, nil)
			return wantCode(r, err, http.StatusOK)
		})
	}
	all.Wait()
	if err := stop(); err != nil {
		t.Errorf("the server did not end well: %v", err)
	}
	for _, word := range []string{"DATA RACE", "concurrent map", "panic"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("it has logged %s", word)
		}
	}
}

// wantCode returns an error unless an answer came, with one of these codes.
func wantCode(r reply, err error, codes ...int) error {
	if err != nil {
		return err
	}
	if !slices.Contains(codes, r.code) {
		return fmt.Errorf("%d %s, want one of %v", r.code, clip(r.body), codes)
	}
	return nil
}

// useALogin logs a user in, refreshes the login, uses it many times at once, and ends it.
func useALogin(ctx context.Context, base, name string) error {
	r, err := passwordGrant(ctx, base, name, password)
	if err := wantCode(r, err, http.StatusOK); err != nil {
		return err
	}
	got := decodeOr[tokenReply](r.body)
	for range 5 {
		r, err := tokenCall(ctx, base, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}, "client_id": {"kubesphere"},
			"client_secret": {"kubesphere"}})
		if err := wantCode(r, err, http.StatusOK); err != nil {
			return err
		}
		got = decodeOr[tokenReply](r.body)
	}
	me := caller{base, got.Access}
	var many sync.WaitGroup
	failed := make(chan error, 4)
	for range cap(failed) {
		many.Go(func() {
			for range 10 {
				if err := me.is(http.StatusOK, http.MethodGet, "/oauth/userinfo")(ctx); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	many.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	return me.is(http.StatusOK, http.MethodGet, "/oauth/logout")(ctx)
}
