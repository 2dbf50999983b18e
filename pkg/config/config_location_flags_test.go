package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestFlagsSayWhatTheConfigurationIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubesphere.yaml")
	if err := os.WriteFile(file, []byte("kubernetes: {kubeconfig: /of/the/file}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file}, "/of/the/file"}, {[]string{"--config", file, "--kubeconfig", "/of/the/flag"}, "/of/the/flag"},
	} {
		var f config.Flags
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Add(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := f.Load()
		if err != nil || got.Kubernetes.Kubeconfig != c.want {
			t.Errorf("%q: %+v, %v", c.args, got, err)
		}
	}
	var f config.Flags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Add(fs)
	if err := fs.Parse([]string{"--config", file + "x"}); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Load(); err == nil {
		t.Errorf("a file that is missing: %+v", c)
	}
}
