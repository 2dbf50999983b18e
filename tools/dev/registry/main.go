// Command registry runs a container registry on loopback, for tests of its clients. It keeps images in memory. It is a program of its own, so
// that who starts a control plane need not compile it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd" // an access controller is chosen by its name
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // a storage driver is chosen by its name
	"github.com/spf13/cobra"
)

// stopTimeout bounds how long open requests may take to end.
const stopTimeout = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1) // cobra has said why
	}
}

// newCommand makes the command that serves a registry until its context ends.
func newCommand() *cobra.Command {
	var addr, htpasswd string
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Run a container registry in memory; prints READY http://ADDRESS and stays until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), addr, htpasswd, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "loopback address to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&htpasswd, "htpasswd", "", "file of user:bcrypt lines; who is not in it is refused. Without it everybody may push")
	return cmd
}

func serve(ctx context.Context, addr, htpasswd string, out io.Writer) error {
	var dial net.ListenConfig
	l, err := dial.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	defer func() { _ = l.Close() }()
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("listen on %s: a registry for tests stays on loopback", addr)
	}
	// Requests outlast ctx while the server shuts down.
	app := handlers.NewApp(context.WithoutCancel(ctx), config(htpasswd))
	srv := &http.Server{Handler: app, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = srv.Shutdown(ctx) // what is left ends with the process
	})
	defer stopped()
	fmt.Fprintf(out, "READY http://%s\n", l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the registry: %w", err)
	}
	return nil
}

func config(htpasswd string) *configuration.Configuration {
	c := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Log:     configuration.Log{Level: "error", AccessLog: configuration.AccessLog{Disabled: true}},
	}
	c.HTTP.Secret = "of one process, for tests"
	if htpasswd != "" {
		c.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": "registry", "path": htpasswd}}
	}
	return c
}
