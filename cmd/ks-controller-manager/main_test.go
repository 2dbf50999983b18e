package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run runs the command as main does.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out := &bytes.Buffer{}
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(out)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionIsJSON(t *testing.T) {
	out, err := run(t, "version")
	v := map[string]string{}
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || !strings.HasPrefix(v["gitVersion"], "v4.1.") {
		t.Errorf("%s, %v", out, err)
	}
}

// The flags of the lease can be set by the names in existing manifests.
func TestOlderNamesOfFlagsSetTheSame(t *testing.T) {
	for older, now := range map[string]string{
		"leader-elect-lease-duration": "lease-duration", "leader-elect-renew-deadline": "renew-deadline", "leader-elect-retry-period": "retry-period",
	} {
		out := &bytes.Buffer{}
		cmd := command()
		cmd.SetOut(out)
		was := cmd.Flags().Lookup(now).Value.String()
		if is := cmd.Flags().Lookup(older).Value.String(); is != was || strings.Contains(cmd.UsageString(), older) {
			t.Errorf("--%s is %s, --%s %s; or it is in the help", now, was, older, is)
		}
		if err := cmd.ParseFlags([]string{"--" + older + "=7s"}); err != nil {
			t.Fatal(err)
		}
		if is := cmd.Flags().Lookup(now).Value.String(); is != "7s" || !strings.Contains(out.String(), "use --"+now) {
			t.Errorf("--%s=7s makes --%s %s, and says %q", older, now, is, out)
		}
		if err := cmd.ParseFlags([]string{"--" + now + "=8s"}); err != nil || cmd.Flags().Lookup(older).Value.String() != "8s" {
			t.Errorf("the last one counts, and --%s is %s: %v", older, cmd.Flags().Lookup(older).Value, err)
		}
	}
}

func TestBadInputIsOneLineThatSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	empty := file(t, "kubesphere.yaml", "{}")
	kubeconfig := file(
		t,
		"kubeconfig",
		`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"http://`+closed+`"}}]}`,
	)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"AnUnknownFlag":     {[]string{"--nope"}, "nope"},
		"AnArgument":        {[]string{"nope"}, "nope"},
		"NoConfiguration":   {[]string{"--config", "/nowhere/at/all"}, "/nowhere/at/all"},
		"AnUnknownKey":      {[]string{"--config", file(t, "kubesphere.yaml", "authentications: {}")}, "authentications"},
		"NoKubeconfig":      {[]string{"--config", empty, "--kubeconfig", "/nowhere/at/all"}, "/nowhere/at/all"},
		"ABrokenKubeconfig": {[]string{"--config", empty, "--kubeconfig", file(t, "kubeconfig", "{{{")}, "kubeconfig"},
		"NoCluster":         {[]string{"--config", empty, "--kubeconfig", kubeconfig}, closed},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want it to name %s", err, c.says)
			}
			if out != "" {
				t.Errorf("it printed %q", out)
			}
		})
	}
}
