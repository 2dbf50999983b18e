package plane

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

func TestARealNodeIsAskedForByItsName(t *testing.T) {
	cmd := NewCommand()
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetArgs([]string{"up", "--node", "reel", "--dir", filepath.Join(t.TempDir(), "none")})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--node real") {
		t.Errorf("got %v", err)
	}
}

func TestRealNodeFiles(t *testing.T) {
	l := testLayout(t)
	p, _, err := choosePorts(l.ports(), 0)
	if err != nil {
		t.Fatal(err)
	}
	i := instance{layout: l, ports: p}
	i.real = i.realNodeOf(2)
	if err := ensureCertificates(l, time.Now(), i.real); err != nil {
		t.Fatal(err)
	}
	if err := i.writeConfigs(); err != nil {
		t.Fatal(err)
	}
	t.Run("AreAllMade", func(t *testing.T) {
		for _, file := range []string{i.real.ClientCA, i.real.Cert, i.real.Key, i.real.KubeletKubeconfig, i.real.ProxyKubeconfig} {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("SayThatThereIsARealNode", func(t *testing.T) {
		if c, err := readRealNode(l); err != nil || c == nil || *c != *i.real {
			t.Errorf("%+v, %v", c, err)
		}
	})
	t.Run("AreForgottenWithIt", func(t *testing.T) {
		i.real = nil
		if err := i.writeRealNode(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(l.realNodeConfig()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
		if c, err := readRealNode(l); err != nil || c != nil {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestKubeAPIServerStaysOnLoopbackWithARealNode(t *testing.T) {
	i := instance{layout: testLayout(t)}
	i.real = &realnode.Config{Index: 1}
	flags := i.apiserverFlags()
	for _, want := range []string{"--bind-address=127.0.0.1", "--advertise-address=10.245.1.2", "--endpoint-reconciler-type=lease"} {
		if !slices.Contains(flags, want) {
			t.Errorf("no %s", want)
		}
	}
}
