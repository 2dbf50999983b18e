// Package helm runs operations on Helm releases, each in a child process of this program.
//
// A chart is somebody else's program, and what it needs (discovery, OpenAPI, templates) takes hundreds of MiB. So an operation that
// loops, allocates or panics has to end alone: the child is killed where it takes too long, or too much memory, and nothing else is
// lost. What it had begun is finished by the next operation on the release, which marks a pending revision as failed and begins again.
//
// This package has the parent's side: Executor, the Request that a child reads from its standard input and the Result that it writes to
// its standard output, as lines of JSON. Package child has the child's side, and is the only one that imports the Helm SDK.
//
//	executor := helm.New(helm.Options{Timeout: cfg.HelmExecutor.Timeout, HistoryMax: cfg.HelmExecutor.HistoryMax})
//	cluster, err := helm.ConnectionOf(restConfig, user, groups)
//	result, err := executor.Run(ctx, helm.Request{Operation: helm.Apply, Name: "shop", Namespace: "extension-shop",
//		Chart: archive, Values: values,
//		ID: string(plan.UID) + "-7", Cluster: cluster}, func(e helm.Event) { ... })
//
// Objects of the release are read and written as the impersonated user, its records (Secrets of the type helm.sh/release.v1, which Helm
// 3 and 4 read and write) with the connection's own credential. Nothing waits for objects to become ready; hooks are waited for.
//
// A child gets its request by a pipe, so no secret is in its arguments or its environment, which is emptied. It has no home and no
// folder for caches: ks-controller-manager's file system is read-only, and a child that is killed leaves nothing to be removed.
package helm
