// Command ks-controller-manager runs the controllers of users, roles and clusters, and mirrors roles and bindings to native RBAC.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controllermanager"
	"kapis.dev/ks-apiserver/pkg/helm"
	helmchild "kapis.dev/ks-apiserver/pkg/helm/child"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/version"
)

// adminPasswordVariable is the environment variable with the first user's password.
const adminPasswordVariable = "KUBESPHERE_ADMIN_PASSWORD"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped while it started: a clean stop
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ks-controller-manager: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var from config.Flags
	o := controllermanager.Options{AdminPassword: os.Getenv(adminPasswordVariable)}
	cmd := &cobra.Command{
		Use:           "ks-controller-manager",
		Short:         "Keep users, roles and clusters, and mirror roles and bindings to native RBAC",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.Load()
			if err != nil {
				return err
			}
			m, err := controllermanager.New(cmd.Context(), cfg, o)
			if err != nil {
				return err
			}
			return m.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	from.Add(f)
	f.BoolVar(&o.LeaderElect, "leader-elect", false, "work only while holding a lease; needed where there are several replicas")
	f.DurationVar(&o.LeaseDuration, "lease-duration", 15*time.Second, "how long others wait before they take over a lease that is not renewed")
	f.DurationVar(&o.RenewDeadline, "renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	f.DurationVar(&o.RetryPeriod, "retry-period", 2*time.Second, "how often the lease is tried")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`address` of /metrics; 0 for none")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	f.IntVar(&o.WebhookPort, "webhook-port", 8443, "port of the admission webhooks; 0 for none")
	f.StringVar(&o.WebhookURL, "webhook-url", "",
		"`URL` at which kube-apiserver finds that port, such as https://127.0.0.1:8443 (default: the service ks-controller-manager in kubesphere-system)")
	f.StringVar(&o.WebhookClientCAFile, "webhook-client-ca-file", "",
		"`file` that has the authority of kube-apiserver's client certificate, in PEM: others get 401 from webhooks (default: no one does)")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", 0,
		"how long everything goes on after SIGTERM, while /readyz fails; longer than kube-apiserver takes to call the webhooks elsewhere")
	f.StringSliceVar(&o.Controllers, "controllers", []string{"*"},
		"which controllers run: * for all, name for one, -name for all but that one")
	f.StringVar(&o.AdminPasswordFile, "admin-password-file", "",
		"`file` that has the password of the user admin, for the first start (default $"+adminPasswordVariable+", else one is generated)")

	// The names that the manifests of existing installations use.
	alias(f, "leader-elect-lease-duration", "lease-duration")
	alias(f, "leader-elect-renew-deadline", "renew-deadline")
	alias(f, "leader-elect-retry-period", "retry-period")

	kube.LogFlags(cmd.PersistentFlags())

	cmd.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return version.Write(cmd.OutOrStdout()) },
	})
	cmd.AddCommand(&cobra.Command{
		Use:    helm.Subcommand,
		Short:  "Run one operation on a Helm release, as this program starts itself for it",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return helmchild.Main(cmd.Context(), os.Stdin, os.Stdout)
		},
	})
	return cmd
}

// alias lets an older name set the same value as a flag. The help does not list it, and using it prints the flag's name.
func alias(f *pflag.FlagSet, older, name string) {
	flag := *f.Lookup(name)
	flag.Name, flag.Hidden, flag.Deprecated = older, true, "use --"+name
	f.AddFlag(&flag)
}
