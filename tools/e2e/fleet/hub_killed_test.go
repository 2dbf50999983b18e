package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// transitions returns when the condition Ready of each member has changed last.
func transitions(t *testing.T, a user) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, member := range members {
		var c struct {
			Status struct {
				Conditions []struct{ Type, Status, LastTransitionTime string }
			}
		}
		if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+member, nil)), &c); err != nil {
			t.Fatal(err)
		}
		for _, o := range c.Status.Conditions {
			if o.Type == "Ready" {
				out[member] = o.Status + " since " + o.LastTransitionTime
			}
		}
	}
	return out
}

// ends returns when a stream has ended.
func ends(t *testing.T, lines <-chan string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, open := <-lines:
			if !open {
				return
			}
		case <-deadline:
			t.Fatalf("the stream has not ended in %v", patience)
		}
	}
}

// versionOf returns the resource version of a list.
func versionOf(t *testing.T, a user, path string) string {
	t.Helper()
	var l struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, path, nil)), &l); err != nil || l.Metadata.ResourceVersion == "" {
		t.Fatalf("%s has the version %q, %v", path, l.Metadata.ResourceVersion, err)
	}
	return l.Metadata.ResourceVersion
}

// F5, F6, F19, F22, F24, F29: a hub that is killed under load, and started again, has its members back without a hand, as they were: nobody is logged out,
// no answer is half a one, watches end and go on where they were, no condition flaps, and what waits for a member gets there.
func TestTheHubIsKilledUnderLoadAndComesBack(t *testing.T) {
	a := admin(t)
	for _, member := range members { // another test may have cut the links
		a.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+member+"/api/v1/nodes", nil)
	}
	before, from, lines := transitions(t, a), map[string]string{}, map[string]<-chan string{}
	for _, member := range members {
		path := "/clusters/" + member + configMaps
		from[member] = versionOf(t, a, path+"?limit=1")
		var end func()
		lines[member], end = events(t, a, path+"?watch=true&resourceVersion="+from[member])
		t.Cleanup(end)
		a.must(t, http.StatusCreated, http.MethodPost, path, configMap("before-the-kill"))
		until(t, lines[member], "before-the-kill")
	}

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answered, broken atomic.Int64
	defer load.Wait()
	defer stop()
	for _, path := range []string{"/clusters/" + direct + "/api/v1/nodes", "/clusters/" + dialer + "/api/v1/nodes",
		fleetMaps + "?limit=10&clusters=" + strings.Join(members, ","), clusters} {
		load.Go(func() {
			for ctx.Err() == nil {
				resp, err := a.ask(ctx, http.MethodGet, path, nil)
				switch {
				case err != nil:
					broken.Add(1)
					time.Sleep(10 * time.Millisecond) // nobody listens
				case resp.Status == http.StatusUnauthorized || strings.Contains(string(resp.Body), `"Unauthorized"`):
					t.Errorf("%s logs out: %d %.300s", path, resp.Status, resp.Body)
					return
				case !json.Valid(resp.Body), resp.Status != http.StatusOK && resp.Status < http.StatusInternalServerError:
					t.Errorf("%s: %d %.300s", path, resp.Status, resp.Body)
					return
				case resp.Status == http.StatusOK:
					answered.Add(1)
				}
			}
		})
	}
	answers := func(n int64, when string) {
		t.Helper()
		eventually(t, when, func(context.Context) error {
			if got := answered.Load(); got < n {
				return fmt.Errorf("%d of %d answers", got, n)
			}
			return nil
		})
	}
	answers(20, "the load runs")

	// What a member that does not answer waits for.
	stopped, begun := pid(t, dialer), time.Now()
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn := sync.OnceFunc(func() { _ = syscall.Kill(stopped, syscall.SIGCONT) })
	defer goesOn()
	role := "while-the-hub-is-killed"
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", role, obj{"rules": []obj{}}))
	if err := syscall.Kill(processWith(t, filepath.Join(product.Dir, "ks-apiserver.kubeconfig")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		ends(t, lines[member])
	}
	goesOn()
	for _, member := range members {
		if _, err := at(t, member, "-n", "default", "create", "configmap", "while-it-is-away"); err != nil {
			t.Error(err)
		}
	}
	var away time.Duration // from the first harm until all are served again
	for _, member := range members {
		a.becomes(t, 5*time.Minute, http.StatusOK, http.MethodGet, "/clusters/"+member+"/api/v1/nodes", nil)
		away = time.Since(begun)
	}
	if broken.Load() == 0 {
		t.Error("the load has not noticed anything")
	}
	answers(answered.Load()+20, "the load runs again")
	stop()
	load.Wait()

	for _, member := range members {
		again, end := events(t, a, "/clusters/"+member+configMaps+"?watch=true&resourceVersion="+from[member])
		until(t, again, "before-the-kill")
		until(t, again, "while-it-is-away")
		end()
		for _, name := range []string{"before-the-kill", "while-it-is-away"} {
			a.must(t, http.StatusOK, http.MethodDelete, "/clusters/"+member+configMaps+"/"+name, nil)
		}
	}
	roles := func(want bool) {
		t.Helper()
		for _, member := range members {
			within(t, 5*time.Minute, fmt.Sprintf("the role is at %s: %v", member, want), func(context.Context) error {
				out, err := at(t, member, "get", "globalroles.iam.kubesphere.io", "-o", "name")
				if err == nil && slices.Contains(strings.Fields(out), "globalrole.iam.kubesphere.io/"+role) != want {
					err = fmt.Errorf("there is %s", out)
				}
				return err
			})
		}
	}
	roles(true)
	a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/"+role, nil)
	roles(false)
	// A link that is back within eight seconds leaves no trace in a condition; one that takes longer is said to be missing, once.
	after := transitions(t, a)
	for _, member := range members {
		if !strings.HasPrefix(after[member], "True") || away < 8*time.Second && after[member] != before[member] {
			t.Errorf("%s was ready: %s, and is: %s; it was away for %v at most", member, before[member], after[member], away)
		}
	}
}
