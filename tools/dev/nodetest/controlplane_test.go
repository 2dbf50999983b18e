package nodetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// controlPlaneUnderLoad does what happens to a control plane, while clients ask all the time.
func (d *deployment) controlPlaneUnderLoad(l *load) {
	d.t.Run("ACompactionOfEtcdFailsNothing", d.with(func(d *deployment) { l.during(d.t, 0, d.compacted) }))
	d.t.Run("AKilledLeaderFailsWritesThatAskItAlone", d.with(func(d *deployment) { l.duringOf(d.t, asksWebhook, d.killLeader) }))
	d.t.Run("ARestartOfKubeAPIServerFailsNoQuery", d.with(func(d *deployment) { l.duringOf(d.t, asksKubeAPIServer, func() { d.restartKubeAPIServer(l) }) }))
}

// asksWebhook reports whether kube-apiserver refused a write because the webhook of a replica that was killed did not answer.
func asksWebhook(failure string) bool {
	return strings.Contains(failure, "PATCH /apis/iam.kubesphere.io/") && strings.Contains(failure, "failed calling webhook")
}

// asksKubeAPIServer reports whether a failed request needed kube-apiserver: those that it answers itself, and the opening and ending of
// sessions.
func asksKubeAPIServer(failure string) bool {
	_, what, _ := strings.Cut(failure, " ") // the time of day
	for _, begin := range []string{"GET /api", "PATCH /api", "a login:", "the watch of /api/"} {
		if strings.HasPrefix(what, begin) {
			return true
		}
	}
	return false
}

// compacted makes etcd forget all versions but the last, as kube-apiserver does every five minutes with those that are older than five.
func (d *deployment) compacted() {
	text, err := os.ReadFile(filepath.Join(d.dir, "run", "ports.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	var ports struct{ Etcd int }
	if err := json.Unmarshal(text, &ports); err != nil {
		d.t.Fatal(err)
	}
	etcdctl := func(args ...string) string {
		d.t.Helper()
		pki := filepath.Join(d.dir, "pki", "etcd-")
		out, err := d.run("", "dev", append([]string{"etcdctl", "--endpoints=https://127.0.0.1:" + strconv.Itoa(ports.Etcd), "--cacert=" + pki + "ca.crt",
			"--cert=" + pki + "client.crt", "--key=" + pki + "client.key"}, args...)...)
		if err != nil {
			d.t.Fatal(err)
		}
		return out
	}
	var status []struct {
		Status struct{ Header struct{ Revision int64 } }
	}
	out := etcdctl("endpoint", "status", "--write-out=json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status) != 1 || status[0].Status.Header.Revision == 0 {
		d.t.Fatalf("the status of etcd: %v %s", err, out)
	}
	etcdctl("compaction", "--physical", strconv.FormatInt(status[0].Status.Header.Revision, 10))
}

// killLeader ends the leader of ks-controller-manager without a chance to give the lease back.
func (d *deployment) killLeader() {
	was := d.leader()
	for _, pod := range d.pods(manager) {
		if pod.Metadata.Name != was {
			continue
		}
		if err := syscall.Kill(d.pidIn(pod, manager), syscall.SIGKILL); err != nil {
			d.t.Fatal(err)
		}
		d.eventually("it is started again", func() error {
			for _, now := range d.pods(manager) {
				if now.Metadata.Name == was && now.Status.ContainerStatuses[0].RestartCount > 0 {
					return nil
				}
			}
			return fmt.Errorf("%s has not been", was)
		})
	}
	d.rolledOut(manager)
	d.leads()
}

// leads waits until the leader has met a new user.
func (d *deployment) leads() {
	d.eventually("a user is made", func() error {
		if code, text := d.try(d.service, http.MethodPost, usersPath, userJSON("led", "Str0ng-enough")); code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	d.eventually("a leader has met the user", func() error {
		code, text := d.try(d.service, http.MethodGet, usersPath+"/led", "")
		if code != http.StatusOK || !strings.Contains(strings.ReplaceAll(text, " ", ""), `"state":"Active"`) {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	d.ask(http.StatusOK, d.service, http.MethodDelete, usersPath+"/led", "")
}

// restartKubeAPIServer kills kube-apiserver, which the supervisor of the control plane starts again, and waits until writes that ask a
// webhook and logins are as before.
func (d *deployment) restartKubeAPIServer(l *load) {
	before := l.newest()
	l.mu.Lock()
	l.restarted = true
	l.mu.Unlock()
	d.kill(d.processOf("kube-apiserver"))
	d.eventually("kube-apiserver is ready", func() error {
		resp, err := d.kube.client.Get(d.kube.server + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it says %s", resp.Status)
		}
		return nil
	})
	d.leads()
	d.eventually("a login counts", func() error {
		_, err := (&load{base: d.service, login: d.login}).logIn(l.client(false))
		return err
	})
	l.caughtUp(d.t)
	after := l.newest()
	l.mu.Lock()
	l.outage = [2]int{before, after}
	l.mu.Unlock()
}
