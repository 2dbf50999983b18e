package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"kapis.dev/ks-apiserver/pkg/login"
)

func (p *program) loginCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use: "login", Short: "Log in, or see that the login still counts", Args: cobra.NoArgs,
		Long: "Log in to the cluster of the current context, or of the one that the flags name, unless there is a login that the server" +
			" still counts.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.fromKubeconfig(); err != nil {
				return err
			}
			s, err := p.session(&t, p.way(t.device, true))
			if err != nil {
				return err
			}
			who, err := s.Login(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(p.tell, "Logged in at %s as %s.\n", t.issuer, who.Name())
			return nil
		},
	}
	t.flags(cmd.Flags())
	t.kubeconfigFlags(cmd.Flags())
	return cmd
}

func (p *program) logoutCommand() *cobra.Command {
	t, local := target{}, false
	cmd := &cobra.Command{
		Use: "logout", Short: "End the login, here and at the server", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.fromKubeconfig(); err != nil {
				return err
			}
			s, err := p.session(&t, login.Nobody)
			if err != nil {
				return err
			}
			if err := s.Logout(cmd.Context(), local); err != nil {
				return err
			}
			fmt.Fprintf(p.tell, "Logged out at %s.\n", t.issuer)
			return nil
		},
	}
	t.flags(cmd.Flags())
	t.kubeconfigFlags(cmd.Flags())
	cmd.Flags().BoolVar(&local, "local", false, "forget the login on this machine without telling the server")
	return cmd
}

func (p *program) whoamiCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use: "whoami", Short: "Print who is logged in, and the groups", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.fromKubeconfig(); err != nil {
				return err
			}
			s, err := p.session(&t, login.Nobody)
			if err != nil {
				return err
			}
			who, err := s.Whoami(cmd.Context())
			if err != nil {
				return hint(err)
			}
			fmt.Fprintf(p.out, "user: %s\n", who.Name())
			for _, g := range who.Groups {
				fmt.Fprintf(p.out, "group: %s\n", g)
			}
			return nil
		},
	}
	t.flags(cmd.Flags())
	t.kubeconfigFlags(cmd.Flags())
	return cmd
}

// way returns how the user is asked to log in: by a browser if there is one and a user at it, and not at all if no one
// would read it, as in a script.
func (p *program) way(device, interactive bool) login.Way {
	switch {
	case device:
		return login.Device
	case !interactive && !p.read:
		return login.Nobody
	case interactive && hasBrowser(p.env):
		return login.Browser
	}
	return login.Device
}

// session returns the session of the login that t names.
func (p *program) session(t *target, way login.Way) (*login.Session, error) {
	if t.issuer == "" {
		return nil, errors.New("no issuer is named: see --" + flagIssuer)
	}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	dir, err := p.cacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the folder of logins: %w; name one with XDG_CACHE_HOME", err)
	}
	return login.New(login.Options{Issuer: t.issuer, Client: t.client, Scopes: t.scopes, User: t.user, Way: way, Listen: t.listen,
		Roots: roots, Insecure: t.insecure, Dir: filepath.Join(dir, "ks"), Tell: p.tell, Open: p.open, Now: p.now})
}

// hint adds to an error what to do if there is no login.
func hint(err error) error {
	if errors.Is(err, login.ErrLoginNeeded) {
		return fmt.Errorf("%w: run `kubectl ks login` (with --kubeconfig and --context as for kubectl)", err)
	}
	return err
}
