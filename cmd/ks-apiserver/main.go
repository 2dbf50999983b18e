// Command ks-apiserver serves KubeSphere's HTTP API and passes /api and /apis on to kube-apiserver.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/apiserver"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ks-apiserver: "+err.Error())
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var from config.Flags
	var listen apiserver.Listen
	cmd := &cobra.Command{
		Use:           "ks-apiserver",
		Short:         "Serve KubeSphere's HTTP API, and pass /api and /apis on to kube-apiserver",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.Load()
			if err != nil {
				return err
			}
			s, err := apiserver.New(cmd.Context(), cfg, listen)
			if err != nil {
				return err
			}
			return s.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	from.Add(f)
	f.StringVar(&listen.BindAddress, "bind-address", "0.0.0.0", "address to listen on")
	f.IntVar(&listen.InsecurePort, "insecure-port", 9090, "HTTP port; 0 for none")
	f.IntVar(&listen.SecurePort, "secure-port", 0, "HTTPS port; 0 for none")
	f.StringVar(&listen.CertFile, "tls-cert-file", "", "PEM `file` of the certificate of the HTTPS port")
	f.StringVar(&listen.KeyFile, "tls-private-key", "", "PEM `file` of its key")
	f.DurationVar(&listen.ShutdownDelay, "shutdown-delay-duration", time.Second,
		"how long everything is still served after SIGTERM, while /readyz fails; longer than a load balancer takes to send clients elsewhere")

	kube.LogFlags(cmd.PersistentFlags())

	cmd.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return version.Write(cmd.OutOrStdout()) },
	})
	return cmd
}
