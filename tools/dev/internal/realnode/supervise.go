package realnode

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

// Supervise starts containerd, imports the images, starts kubelet and kube-proxy, and keeps all three running until ctx ends.
func Supervise(ctx context.Context, configFile string, out io.Writer) error {
	c, err := ReadConfig(configFile)
	if err != nil {
		return err
	}
	s := &process.Supervisor{
		Spawner: process.NewSpawner(),
		Logf:    func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
		Backoff: 500 * time.Millisecond, MaxBackoff: 10 * time.Second, Tries: 3,
		Poll: 100 * time.Millisecond, Grace: 5 * time.Second,
	}
	defer s.Stop()
	if err := s.Start(ctx, c.component("containerd", c.containerdReady, "containerd", "--config", c.path("containerd.toml"))); err != nil {
		return err
	}
	for _, image := range []string{pauseImage, BusyboxImage} {
		if err := run(ctx, "ctr", "--address", c.socket(), "--namespace", "k8s.io", "images", "import", c.imageFile(image)); err != nil {
			return fmt.Errorf("import %s: %w", image, err)
		}
	}
	if err := s.Start(ctx, c.component("real-kubelet", healthy("http://127.0.0.1:10248/healthz"), self, c.kubeletFlags()...)); err != nil {
		return err
	}
	if err := s.Start(ctx, c.component("kube-proxy", healthy("http://127.0.0.1:10249/healthz"), self, c.proxyFlags()...)); err != nil {
		return err
	}
	if err := os.WriteFile(ReadyFile(c.Dir), nil, 0o600); err != nil {
		return fmt.Errorf("say that the node is ready: %w", err)
	}
	<-ctx.Done()
	return nil
}

func (c Config) component(name string, ready func(context.Context) error, file string, args ...string) process.Component {
	return process.Component{
		Name: name,
		Command: func() *exec.Cmd {
			cmd := exec.Command(file, args...) //nolint:noctx // the supervisor ends it, in order
			cmd.Args[0] = filepath.Base(file)
			if file == self {
				cmd.Args[0] = "node"
			}
			cmd.Dir = c.Dir
			return cmd
		},
		Log:   c.log(name),
		Ready: ready,
	}
}

func (c Config) containerdReady(ctx context.Context) error {
	return run(ctx, "ctr", "--address", c.socket(), "--connect-timeout", "2s", "version")
}

// healthy returns a question that is answered with nil once a GET of url succeeds.
func healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}
