// Command kubectl-ks is the kubectl plugin `kubectl ks`: it logs in to a ks-apiserver, is the credential plugin that
// kubeconfigs name, creates such kubeconfigs, and lists and watches objects by its queries.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	screen := int(os.Stdout.Fd())
	p := &program{out: os.Stdout, tell: os.Stderr, env: os.Getenv, cacheDir: os.UserCacheDir, now: time.Now, open: openBrowser,
		typed: term.IsTerminal(int(os.Stdin.Fd())), read: term.IsTerminal(int(os.Stderr.Fd()))}
	if term.IsTerminal(screen) && os.Getenv("TERM") != "dumb" {
		p.colours = os.Getenv("NO_COLOR") == "" // https://no-color.org
		p.size = func() (width, height int) {
			width, height, err := term.GetSize(screen)
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		}
	}
	err := p.command().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "kubectl-ks: interrupted")
	case err != nil:
		fmt.Fprintln(os.Stderr, failure(err))
	default:
		return
	}
	os.Exit(1)
}

// failure returns what a user reads about an error: of a server, as kubectl says it.
func failure(err error) string {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, one := range all.Unwrap() {
			lines = append(lines, failure(one))
		}
		return strings.Join(lines, "\n")
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return "kubectl-ks: " + plainText(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	message := plainText(strings.ReplaceAll(s.Status().Message, "\n", "; "))
	switch reason := s.Status().Reason; reason {
	case metav1.StatusReasonUnauthorized:
		return "error: You must be logged in to the server (" + message + ")"
	case "":
		return "Error from server: " + message
	default:
		return "Error from server (" + plainText(string(reason)) + "): " + message
	}
}

// program has what the commands share.
type program struct {
	// out receives the output, and tell the messages to the user.
	out, tell io.Writer
	env       func(string) string
	cacheDir  func() (string, error)
	now       func() time.Time
	open      func(ctx context.Context, address string) error
	// typed says that the user can type, and read that they can read messages.
	typed, read bool
	// colours says that the output may have colours, and size returns the columns and lines of the terminal that shows it, nil for none.
	colours bool
	size    func() (width, height int)
}

func (p *program) command() *cobra.Command {
	name := "kubectl-ks"
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") { // under the name that users call it by
		name = "kubectl ks"
	}
	cmd := &cobra.Command{
		Use: name, Short: "Log in to a ks-apiserver with kubectl, and ask it for objects",
		SilenceErrors: true, SilenceUsage: true,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: name},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	cmd.SetOut(p.out)
	cmd.SetErr(p.tell)
	cmd.AddCommand(p.loginCommand(), p.logoutCommand(), p.whoamiCommand(), p.kubeconfigCommand(), p.tokenCommand(), p.getCommand(),
		p.extensionCommand(), &cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return version.Write(p.out) },
		})
	return cmd
}
