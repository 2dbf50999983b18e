package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// The values of --output.
const (
	outTable = "table"
	outWide  = "wide"
	outJSON  = "json"
	outYAML  = "yaml"
	outName  = "name"
)

const (
	// pageSize is the limit where --page is given and --limit is not.
	pageSize = 20
	// mostLive is the longest live page that a server has.
	mostLive = 500
)

// getOptions are the flags of `kubectl ks get`.
type getOptions struct {
	kubeconfig, context, namespace, as string
	asGroups                           []string
	all                                bool

	selector, cel, search, sortBy string
	filters, facets, clusters     []string
	descending                    bool
	page, limit                   int

	output             string
	noHeaders          bool
	watch, live, types bool
	through            string
}

// getter is one call of `kubectl ks get`.
type getter struct {
	*program
	*getOptions
	client *queryclient.Client
	query  queryclient.Query
	names  []string
	// rows prints the rows, all of them under one headline.
	rows *tablePrinter
	// listed are the items of the list, for the watch of a page, and columns those of its rows.
	listed  []json.RawMessage
	columns []column
}

func outputs() []string { return []string{outTable, outWide, outJSON, outYAML, outName} }

func (p *program) getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get KIND [NAME...]",
		Short: "List objects: filtered, sorted, in pages, counted; or watch them",
		Long: "List objects by the queries of ks-apiserver: with a context of ks-apiserver, or with any kubeconfig of a cluster that serves" +
			" query.kapis.dev. Of what you may see in some namespaces only, those are listed.",
		Example: "  kubectl ks get pods -A --sort-by=.status.startTime --filter 'status.phase!=Running' --facets spec.nodeName --page 2\n" +
			"  kubectl ks get deployments -n shop --cel 'object.spec.replicas > 3' -o wide --watch\n" +
			"  kubectl ks get events -A --sort-by=lastTimestamp --desc --live\n" +
			"  kubectl ks get pods -A --clusters '*' --filter 'status.phase!=Running'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"page", "limit"} { // 0 means that the flag is not there
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
					return fmt.Errorf("--%s 0: want a number from 1", name)
				}
			}
			return p.get(cmd.Context(), &o, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return p.complete(cmd.Context(), &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "`name` of the context in it (default the current one)")
	f.StringVarP(&o.namespace, "namespace", "n", "", "`name` of the namespace (default that of the context)")
	f.StringVar(&o.as, "as", "", "`name` of a user to impersonate")
	f.StringSliceVar(&o.asGroups, "as-group", nil, "`names` of groups to impersonate")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "objects in all namespaces")
	f.StringVarP(&o.selector, "selector", "l", "", "label `selector`, such as app in (a,b),!old")
	f.StringArrayVar(&o.filters, "filter", nil, "`condition` on a field, such as status.phase!=Running; all must hold")
	f.StringVar(&o.cel, "cel", "", "CEL `expression` over object that must hold")
	f.StringVar(&o.search, "search", "", "`words` that must be in the name, a label or an annotation")
	f.StringVar(&o.sortBy, "sort-by", "", "`keys` joined by commas: name, namespace, creationTimestamp, or paths such as .status.startTime")
	f.BoolVar(&o.descending, "desc", false, "sort the largest first")
	f.StringSliceVar(&o.facets, "facets", nil, "count the values of these `fields` over all matches")
	f.StringSliceVar(&o.clusters, "clusters", nil, "list over these `clusters` of the fleet of ks-apiserver; '*' for all")
	f.IntVar(&o.page, "page", 0, "which page, from 1")
	f.IntVar(&o.limit, "limit", 0, "objects on a page (default all, or 20 with --page)")
	f.StringVarP(&o.output, "output", "o", outTable, "`format`: "+oneOf(outputs()))
	f.BoolVar(&o.noHeaders, "no-headers", false, "no line with the names of columns")
	f.BoolVarP(&o.watch, "watch", "w", false, "after the list, print what changes")
	f.BoolVar(&o.types, "output-watch-events", false, "with --watch: say whether an object was added, modified or deleted")
	f.BoolVar(&o.live, "live", false, "show a page that is kept up to date")
	f.StringVar(&o.through, "through", "", "`API` to use: kapis (ks-apiserver) or aggregated (query.kapis.dev); default the one that is there")
	fixed := func(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, complete := range map[string]func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective){
		"output":  fixed(outputs()...),
		"through": fixed(string(queryclient.Kapis), string(queryclient.Aggregated)),
		"namespace": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			all := o
			all.all = true
			return p.complete(cmd.Context(), &all, []string{"namespaces"})
		},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // the flags exist
	}
	return cmd
}

// oneOf returns words as a sentence has them.
func oneOf(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// check returns what is wrong with the flags, or nil.
func (o *getOptions) check(names []string) error {
	switch {
	case !slices.Contains(outputs(), o.output):
		return fmt.Errorf("--output %q: want %s", o.output, oneOf(outputs()))
	case o.through != "" && o.through != string(queryclient.Kapis) && o.through != string(queryclient.Aggregated):
		return fmt.Errorf("--through %q: want %s or %s", o.through, queryclient.Kapis, queryclient.Aggregated)
	case o.page < 0:
		return fmt.Errorf("--page %d: want a number from 1", o.page)
	case o.limit < 0:
		return fmt.Errorf("--limit %d: want a number from 1; without it all objects are listed", o.limit)
	case o.live && o.watch:
		return errors.New("--live and --watch: want one of them; --watch prints rows as they change, --live draws a page again")
	case o.live && o.output != outTable && o.output != outWide:
		return fmt.Errorf("--live --output %q: want %s or %s; --watch has the others", o.output, outTable, outWide)
	case o.live && len(o.facets) > 0:
		return errors.New("--live and --facets: a live page has no facets; a list has them")
	case (o.live || o.watch) && o.limit > mostLive:
		return fmt.Errorf("--limit %d: want at most %d objects on a page that is watched", o.limit, mostLive)
	case o.types && !o.watch:
		return errors.New("--output-watch-events: want it together with --watch")
	case o.all && o.namespace != "":
		return errors.New("--all-namespaces and --namespace: want one of them")
	case len(names) > 0 && o.all:
		return errors.New("a name and --all-namespaces: want --namespace, or --filter metadata.name=NAME")
	case len(names) > 0 && (o.selector != "" || o.cel != "" || o.search != "" || len(o.filters)+len(o.facets)+o.page+o.limit > 0):
		return errors.New("names, and flags that choose among objects: want either")
	}
	for _, name := range names {
		if wrong := content.IsPathSegmentName(name); len(wrong) > 0 || name == "" {
			return fmt.Errorf("%q is no name of an object", name)
		}
	}
	if wrong := content.IsPathSegmentName(o.namespace); len(wrong) > 0 {
		return fmt.Errorf("--namespace %q is no name of a namespace", o.namespace)
	}
	return nil
}

// config returns the configuration of the context, and its namespace.
func (o *getOptions) config() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.AuthInfo.Impersonate, overrides.AuthInfo.ImpersonateGroups = o.as, o.asGroups
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace := o.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, namespace, nil
}

// newGetter returns the call for a kind.
func (p *program) newGetter(ctx context.Context, o *getOptions, kind string, names []string) (*getter, error) {
	config, namespace, err := o.config()
	if err != nil {
		return nil, err
	}
	g := &getter{program: p, getOptions: o, names: names}
	if g.client, err = queryclient.Open(ctx, config, queryclient.Door(o.through)); err != nil {
		return nil, err
	}
	if g.query.Kind, err = g.client.Kind(kind); err != nil {
		return nil, err
	}
	if g.query.Fleet = len(o.clusters) > 0; g.query.Fleet && g.client.Door != queryclient.Kapis {
		return nil, errors.New("--clusters: only a ks-apiserver knows several clusters: use a context of one")
	}
	if g.query.Kind.Namespaced && !o.all {
		g.query.Namespace = namespace
	}
	g.query.Parameters = g.parameters()
	return g, nil
}

// parameters returns those of the query, except for pages.
func (g *getter) parameters() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"labelSelector": g.selector, "fieldSelector": strings.Join(g.filters, ","), "cel": g.cel,
		"q": g.search, "names": strings.Join(g.names, ","), "clusters": strings.Join(g.clusters, ",")} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// paged returns the parameters of a list: those of the query, its order, page and facets.
func (g *getter) paged() url.Values {
	v := g.parameters()
	keys := g.sortBy
	if keys == "" {
		keys = "name"
		if g.query.Kind.Namespaced {
			keys = "namespace,name"
		}
	}
	v.Set("sortBy", keys)
	v.Set("ascending", strconv.FormatBool(!g.descending))
	if g.page > 0 || g.limit > 0 {
		v.Set("page", strconv.Itoa(max(g.page, 1)))
		limit := g.limit
		if limit == 0 {
			limit = pageSize
		}
		v.Set("limit", strconv.Itoa(limit))
	}
	if len(g.facets) > 0 {
		v.Set("facets", strings.Join(g.facets, ","))
	}
	return v
}

// get runs the command.
func (p *program) get(ctx context.Context, o *getOptions, args []string) error {
	kind, names := args[0], args[1:]
	if before, name, ok := strings.Cut(kind, "/"); ok {
		kind, names = before, append([]string{name}, names...)
	}
	if err := o.check(names); err != nil {
		return err
	}
	g, err := p.newGetter(ctx, o, kind, names)
	if err != nil {
		return err
	}
	switch {
	case o.live:
		return g.showLive(ctx)
	case len(names) > 0 && !o.watch && !g.query.Fleet:
		return g.objects(ctx)
	}
	version, err := g.list(ctx)
	if err == nil && o.watch {
		err = g.follow(ctx, version)
		if errors.Is(err, context.Canceled) {
			return nil // the user has seen enough
		}
	}
	return err
}

// complete returns kinds, or names of objects where the kind is there already.
func (p *program) complete(ctx context.Context, o *getOptions, args []string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		config, _, err := o.config()
		if err != nil {
			return nil, none
		}
		c, err := queryclient.Open(ctx, config, queryclient.Door(o.through))
		if err != nil {
			return nil, none
		}
		return c.Kinds(), none
	}
	g, err := p.newGetter(ctx, o, args[0], nil)
	if err != nil {
		return nil, none
	}
	g.query.Parameters = url.Values{"fields": {".metadata.name"}, "limit": {strconv.Itoa(mostLive)}, "sortBy": {"name"}, "ascending": {"true"}}
	text, _, err := g.client.Get(ctx, g.query, queryclient.JSON)
	if err != nil {
		return nil, none
	}
	l, err := readList(text)
	if err != nil {
		return nil, none
	}
	var out []string
	for _, i := range l.Items {
		if name := i.name(); !slices.Contains(args[1:], name) {
			out = append(out, name)
		}
	}
	return slices.Compact(out), none
}

// objects prints single objects by their names. Those that can't be had are told of after the others.
func (g *getter) objects(ctx context.Context) error {
	var failures []error
	var items []item
	var rows *table
	for _, name := range g.names {
		q := g.query
		q.Name, q.Parameters = name, url.Values{}
		var err error
		switch g.output {
		case outTable, outWide:
			var t *table
			if t, _, err = g.table(ctx, q); err == nil {
				if rows == nil {
					rows = t
				} else {
					rows.Rows = append(rows.Rows, t.Rows...)
				}
			}
		default:
			var text []byte
			if text, _, err = g.client.Get(ctx, q, queryclient.JSON); err == nil {
				items = append(items, item{text})
			}
		}
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			return err
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	if rows != nil {
		g.printer().print(g.out, rows, nil)
	}
	switch {
	case g.output == outName:
		for _, i := range items {
			fmt.Fprintln(g.out, plainText(g.query.Kind.ObjectName(i.name())))
		}
	case len(items) == 1 && len(g.names) == 1:
		failures = append(failures, g.printValue(items[0].RawMessage))
	case len(items) > 0:
		failures = append(failures, g.printList(&list{TotalItems: len(items), Items: items}))
	}
	return errors.Join(failures...)
}
