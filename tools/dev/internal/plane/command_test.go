package plane

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

func TestCommandsSayThatNothingWasStarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for claim, tc := range map[string]struct {
		args   []string
		prints string
		fails  string
	}{
		"Down":       {args: []string{"down"}, prints: "no control plane runs in " + dir},
		"Status":     {args: []string{"status"}, prints: "no control plane runs in " + dir, fails: "not running"},
		"Kubeconfig": {args: []string{"kubeconfig", "--user", "u", "--out", "f"}, fails: "has `dev up --dir " + dir + "` ever run?"},
		"Cert": {
			args:  []string{"cert", "--name", "n", "--out-cert", "c", "--out-key", "k", "--out-ca", "a"},
			fails: "has `dev up --dir " + dir + "` ever run?",
		},
		"Snapshot":              {args: []string{"snapshot", "--to", "f"}, fails: "`dev up --dir " + dir + "` starts one"},
		"RestoreOfNothing":      {args: []string{"restore", "--from", filepath.Join(dir, "no.db")}, fails: "read the snapshot"},
		"RestoreWhereNothingIs": {args: []string{"restore", "--from", os.Args[0]}, fails: "has `dev up --dir " + dir + "` ever run?"},
		"RevisionsOnlyGrow":     {args: []string{"restore", "--from", os.Args[0], "--bump-revision", "-1"}, fails: "--bump-revision -1"},
		"UserIsRequired":        {args: []string{"kubeconfig", "--out", "f"}, fails: "user"},
		"DetachOrForeground":    {args: []string{"up", "--detach", "--foreground"}, fails: "detach"},
	} {
		t.Run(claim, func(t *testing.T) {
			var out bytes.Buffer
			cmd := NewCommand()
			cmd.SetOut(&out)
			cmd.SetArgs(append(tc.args, "--dir", dir))
			err := cmd.ExecuteContext(t.Context())
			if (err != nil) != (tc.fails != "") || (err != nil && !strings.Contains(err.Error(), tc.fails)) {
				t.Errorf("got error %v, want %q", err, tc.fails)
			}
			if !strings.Contains(out.String(), tc.prints) {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

func TestCertAndKubeconfigFiles(t *testing.T) {
	l := testLayout(t)
	if _, _, err := choosePorts(l.ports(), 0); err != nil {
		t.Fatal(err)
	}
	if err := ensureCertificates(l, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	file := func(name string) string { return filepath.Join(out, name) }
	for _, args := range [][]string{
		{"kubeconfig", "--user", "system:serviceaccount:n:s", "--group", "g", "--group", "h", "--out", file("k")},
		{"cert", "--name", "127.0.0.1", "--name", "localhost", "--out-cert", file("c.crt"), "--out-key", file("c.key"), "--out-ca", file("ca")},
	} {
		cmd := NewCommand()
		cmd.SetArgs(append(args, "--dir", l.dir))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := os.ReadFile(file("ca"))
	if err != nil {
		t.Fatal(err)
	}
	if own, err := os.ReadFile(l.pki("ca.crt")); err != nil || !bytes.Equal(own, ca) {
		t.Errorf("the authority is not the cluster's (%v)", err)
	}
	if _, err := pki.ReadPair(out, "c"); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(file("k")); err != nil || !strings.Contains(string(data), `user: "system:serviceaccount:n:s"`) {
		t.Errorf("%s %v", data, err)
	}
}

func TestStaleSupervisorFiles(t *testing.T) {
	me, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	reused := me
	reused.Started--
	encode := func(id process.Identity) []byte {
		data, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for claim, tc := range map[string]struct {
		content []byte
		running bool
	}{
		"TheLiving":          {encode(me), true},
		"AReusedNumberIsNot": {encode(reused), false},
		"AnEmptyFileIsNot":   {nil, false},
		"GarbageIsNot":       {[]byte("4711"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			l := testLayout(t)
			if err := os.WriteFile(l.supervisor(), tc.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, running := l.running(); running != tc.running {
				t.Errorf("running: %v", running)
			}
		})
	}
}

func TestASecondSupervisorIsToldInOneLine(t *testing.T) {
	l := testLayout(t)
	lock, err := l.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for claim, want := range map[string]string{"WhileStarting": "starting or stopping", "WhileRunning": "already runs"} {
		t.Run(claim, func(t *testing.T) {
			if claim == "WhileRunning" {
				me, err := process.Identify(os.Getpid())
				if err != nil {
					t.Fatal(err)
				}
				data, _ := json.Marshal(me)
				if err := os.WriteFile(l.supervisor(), data, 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(l.supervisor())
			}
			err := up(t.Context(), l, upOptions{}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}
