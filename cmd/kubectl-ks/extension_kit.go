package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/extension/kit"
)

// defaultPage is where the page of a new extension is in its folder.
const defaultPage = kit.ChartFolder + "/page/index.js"

func (p *program) extensionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "extension", Aliases: []string{"ext"}, Short: "Write an extension: begin, check, pack, push and try it",
		Example: "  kubectl ks extension create hello && cd hello\n  kubectl ks extension lint\n  kubectl ks extension push\n" +
			"  kubectl ks extension run --backend http://127.0.0.1:8080",
	}
	cmd.AddCommand(p.createExtensionCommand(), p.lintExtensionCommand(), p.packageExtensionCommand(), p.pushExtensionCommand(),
		p.runExtensionCommand(), p.logExtensionCommand())
	return cmd
}

func (p *program) createExtensionCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Write a new extension into a folder of its own", Args: cobra.ExactArgs(1),
		Long: "Write a new extension: a chart with an APIService, a ReverseProxy, a page and role templates, and a backend in Go that" +
			" verifies who asks.",
		RunE: func(_ *cobra.Command, args []string) error {
			to := dir
			if to == "" {
				to = args[0]
			}
			files, err := kit.Create(to, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(p.out, "The extension %s is in %s: %d files. Next:\n  kubectl ks extension lint %s\n", args[0], to, len(files), to)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` to write it to, empty or not there yet (default the name)")
	return cmd
}

func (p *program) lintExtensionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lint [DIR|TGZ]", Short: "Say what the platform would say of an extension's chart", Args: cobra.MaximumNArgs(1),
		Long: "Read the chart of an extension as the platform reads it. Errors are what it refuses; then the exit code is 1. It shows what the" +
			" installation asks for, which whoever installs the extension approves. Templates are not rendered.",
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := kit.Open(folder(args))
			if err != nil {
				return err
			}
			r := kit.Lint(a)
			p.report(r)
			return refused(r)
		},
	}
}

// folder is the extension that a command is about: the folder where it is called, if none is named.
func folder(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// report prints what was found, and what is asked for.
func (p *program) report(r *kit.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(p.out, "%-8s %s: %s\n         %s\n", f.Kind(), plainText(f.File), plainText(f.What), plainText(f.Do))
	}
	if r.Request == nil {
		return
	}
	fmt.Fprintf(p.out, "%s %s asks for (level: %s)\n", r.Name, r.Version, r.Request.Level())
	for _, line := range kit.Describe(r.Request) {
		fmt.Fprintf(p.out, "  %s\n", plainText(line))
	}
}

func refused(r *kit.Report) error {
	if n := r.Refused(); n > 0 {
		return fmt.Errorf("the platform would refuse the chart: %d errors", n)
	}
	return nil
}

// packed returns an extension's chart, packed. Warnings are told.
func (p *program) packed(path string) ([]byte, *kit.Report, error) {
	a, err := kit.Open(path)
	if err != nil {
		return nil, nil, err
	}
	raw, r, err := kit.Package(a)
	if err != nil {
		return nil, nil, err
	}
	if r.Refused() > 0 {
		p.report(r)
	}
	return raw, r, refused(r)
}

func (p *program) packageExtensionCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "package [DIR]", Short: "Pack an extension's chart, as chart repositories have it", Args: cobra.MaximumNArgs(1),
		Long: "Pack the chart of an extension. Chart.yaml is made of extension.yaml unless there is one; files whose names begin with a" +
			" dot are left out. The same files make the same bytes.",
		RunE: func(_ *cobra.Command, args []string) error {
			raw, r, err := p.packed(folder(args))
			if err != nil {
				return err
			}
			if to == "" {
				to = r.Name + "-" + r.Version + ".tgz"
			}
			if is, err := os.Stat(to); err == nil && is.IsDir() {
				to = filepath.Join(to, r.Name+"-"+r.Version+".tgz")
			}
			if err := os.WriteFile(to, raw, 0o644); err != nil {
				return fmt.Errorf("write the package: %w", err)
			}
			fmt.Fprintf(p.out, "%s (%d KiB)\n", to, (len(raw)+1023)>>10)
			return nil
		},
	}
	cmd.Flags().StringVarP(&to, "output", "o", "", "`file` or folder to write it to (default NAME-VERSION.tgz here)")
	return cmd
}

// installation returns the platform of a context.
func (p *program) installation(o *getOptions) (*kit.Installation, error) {
	config, _, err := o.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return &kit.Installation{Client: client, Tell: plainLines{p.tell}, Pause: 500 * time.Millisecond}, nil
}

// contextFlags are the flags that say which platform is meant.
func contextFlags(o *getOptions, f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "`name` of the context in it (default the current one)")
}

func (p *program) pushExtensionCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "push [DIR|TGZ]", Short: "Bring an extension's chart to a platform, so that it can be installed there", Args: cobra.MaximumNArgs(1),
		Long: "Bring the chart of an extension to the platform of the current context: into a ConfigMap of kubesphere-system, and as an" +
			" ExtensionVersion. A version that was pushed before is replaced; what is from a Repository is not touched. Nothing is" +
			" installed by that.",
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, r, err := p.packed(folder(args))
			if err != nil {
				return err
			}
			i, err := p.installation(&o)
			if err != nil {
				return err
			}
			if err := i.Push(cmd.Context(), raw, r); err != nil {
				return err
			}
			fmt.Fprint(p.out, kit.InstallCommand(r.Name, r.Version))
			return nil
		},
	}
	contextFlags(&o, cmd.Flags())
	return cmd
}

func (p *program) runExtensionCommand() *cobra.Command {
	var o getOptions
	var t kit.Trial
	var api string
	cmd := &cobra.Command{
		Use: "run [DIR]", Short: "Try an extension's page and backend in a platform while they change", Args: cobra.MaximumNArgs(1),
		Long: "Put the page and the backend of an extension into the platform of the current context until Ctrl-C, without installing it:" +
			" a JSBundle with the page, which follows its file, an APIService and a ReverseProxy that lead to the backend. The platform connects" +
			" to the backend: from where it runs, --backend has to be reached. Role templates are not made.",
		Example: "  kubectl ks extension run --backend http://192.168.1.20:8080",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := folder(args)
			if t.Name == "" {
				a, err := kit.Open(at)
				if err != nil {
					return fmt.Errorf("%w; or see --name", err)
				}
				is, err := a.Extension()
				if err != nil {
					return err
				}
				t.Name = is.Name
			}
			if t.Page == "" && !cmd.Flags().Changed("page") {
				page := filepath.Join(at, filepath.FromSlash(defaultPage))
				if _, err := os.Stat(page); err == nil {
					t.Page = page
				} else if !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("read the page: %w", err)
				}
			}
			if !cmd.Flags().Changed("api") {
				api = t.Name + ".example.com/v1"
			}
			if !cmd.Flags().Changed("proxy") {
				t.Proxy = "/proxy/" + t.Name
			}
			var err error
			if t.API, err = schema.ParseGroupVersion(api); err != nil {
				return fmt.Errorf("--api %q: want GROUP/VERSION", api)
			}
			i, err := p.installation(&o)
			if err != nil {
				return err
			}
			return i.Run(cmd.Context(), &t)
		},
	}
	f := cmd.Flags()
	contextFlags(&o, f)
	f.StringVar(&t.Name, "name", "", "`name` of the extension (default that of extension.yaml)")
	f.StringVar(&t.Backend, "backend", "", "`URL` of the backend, as the platform reaches it (default none)")
	f.StringVar(&t.Page, "page", "", "`file` of the page (default "+defaultPage+", if it is there)")
	f.StringVar(&api, "api", "", "`GROUP/VERSION` that the backend answers for, or none if empty (default NAME.example.com/v1)")
	f.StringVar(&t.Proxy, "proxy", "", "`path` below /proxy/ that leads to the backend, or none if empty (default /proxy/NAME)")
	return cmd
}

func (p *program) logExtensionCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "log NAME", Short: "Show how far an installation is, and its log", Args: cobra.ExactArgs(1),
		Long: "Show the state of an extension's InstallPlan, the conditions that do not hold, and the log of its last operation.",
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := p.installation(&o)
			if err != nil {
				return err
			}
			return i.Log(cmd.Context(), plainLines{p.out}, args[0])
		},
	}
	contextFlags(&o, cmd.Flags())
	return cmd
}

// plainLines writes lines to a terminal without what would command it: some of what is told comes from a server.
type plainLines struct{ to io.Writer }

// Write implements io.Writer.
func (w plainLines) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Fprintln(w.to, plainText(strings.TrimSuffix(line, "\n"))); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
