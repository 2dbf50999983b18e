package e2e

import (
	"regexp"
	"strings"
)

// command is one command of a script.
type command struct {
	// line is what is typed after kubectl; $N is the namespace, and a part of names outside it, and $NODE a simulated node.
	line  string
	stdin string
	// code is the exit code that both ways must have; -1 is any.
	code int
	// differs is the reason why the answers differ; a command that has one and is answered equally fails the test.
	differs string
	// alter takes away what no two runs have in common in this command alone.
	alter func(kubectlAnswer) kubectlAnswer
	// A command that doesn't end by itself is ended when it shows a line with until; meanwhile runs when it shows one with begun.
	begun, until string
	meanwhile    []string
}

func line(text string) command                                     { return command{line: text} }
func fails(text string) command                                    { return command{line: text, code: 1} }
func input(text, stdin string) command                             { return command{line: text, stdin: stdin} }
func refused(text, stdin string) command                           { return command{line: text, stdin: stdin, code: 1} }
func differs(text, because string) command                         { return command{line: text, code: -1, differs: because} }
func ends(text string, code int) command                           { return command{line: text, code: code} }
func (c command) with(a func(kubectlAnswer) kubectlAnswer) command { c.alter = a; return c }

// replaced replaces what is of one run in one command.
func replaced(of, by string) func(kubectlAnswer) kubectlAnswer {
	r := regexp.MustCompile(of)
	return func(o kubectlAnswer) kubectlAnswer {
		return kubectlAnswer{r.ReplaceAllString(o.stdout, by), r.ReplaceAllString(o.stderr, by), o.code}
	}
}

// kubectlFiles are in the working folder of each side.
var kubectlFiles = map[string]string{
	"pod.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web","tier":"front"}},
		"spec":{"nodeName":"dev-node-0","containers":[{"name":"c","image":"example/web:1"}]}}`,
	"deployment.json": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"app","labels":{"app":"app"}},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":"app"}},"template":{"metadata":{"labels":{"app":"app"}},
		"spec":{"nodeName":"dev-node-0","containers":[{"name":"c","image":"example/web:1","ports":[{"containerPort":80}]}]}}}}`,
	"changed.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"changed","c":"3"}}`,
	"crd.json": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.$N.example.com"},
		"spec":{"group":"$N.example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing"},
		"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
		"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","description":"what it is","properties":{
		"size":{"type":"integer","minimum":1,"description":"how large"}}},"status":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`,
	"thing.json": `{"apiVersion":"$N.example.com/v1","kind":"Thing","metadata":{"name":"one"},"spec":{"size":3}}`,
	"event.json": `{"apiVersion":"v1","kind":"Event","metadata":{"name":"seen"},"involvedObject":{"apiVersion":"v1","kind":"ConfigMap","name":"c1",
		"namespace":"$N"},"reason":"Seen","message":"it was seen","type":"Normal","source":{"component":"test"},"count":2,
		"firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T03:04:05Z"}`,
}

const (
	configMapC3     = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c3","labels":{"set":"s"}},"data":{"k":"three"}}`
	appliedMap      = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"1","b":"2"}}`
	unknownField    = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"nonsense":1,"data":{"a":"1"}}`
	twiceField      = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"data":{"a":"1","a":"2"}}`
	wrongType       = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd"},"data":{"a":1}}`
	invalidName     = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not Valid"}}`
	unknownKind     = `{"apiVersion":"example.com/v1","kind":"Nothing","metadata":{"name":"odd"}}`
	invalidSpec     = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"odd"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[]}}}}`
	warnedPod       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"warned"},"spec":{"containers":[{"name":"c","image":"x","env":[{"name":"A"},{"name":"A"}]}]}}`
	unschedulable   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"drained","labels":{"drained":"$N"}},"spec":{"nodeName":"$NODE","terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"x"}]}}`
	ownersRights    = "the administrator is a member of system:masters directly, and a user of the platform through ks-apiserver"
	ourVersion      = "ks-apiserver tells its own version"
	ourHealth       = "it is the health of ks-apiserver, with checks of its own"
	noImpersonation = "ks-apiserver lets nobody act as another"
	ourAPI          = "ks-apiserver's own paths are listed with kube-apiserver's"
)

// kubectlScripts run side by side; each is for itself.
var kubectlScripts = map[string][]command{
	"reads":     reads,
	"writes":    changes,
	"workloads": workloads,
	"documents": documents,
	"streams":   streams,
}

var reads = []command{
	line("create configmap c1 --from-literal=k=one --from-literal=z=last"),
	line("create configmap c2 --from-literal=k=two"),
	input("create -f -", configMapC3),
	line("label configmap c1 c2 set=s"),
	line("get configmaps"),
	line("get configmaps -o wide"),
	line("get configmaps -o name"),
	line("get configmaps -o json"),
	line("get configmaps -o yaml"),
	line("get configmap c1 -o yaml --show-managed-fields"),
	line("get configmaps -o jsonpath='{range .items[*]}{.metadata.name}={.data.k}{\"\\n\"}{end}'"),
	line("get configmaps -o go-template='{{range .items}}{{.metadata.name}} {{end}}'"),
	line("get configmaps -o custom-columns=NAME:.metadata.name,K:.data.k"),
	line("get configmaps --no-headers --show-labels"),
	line("get configmaps -L set"),
	line("get configmaps --show-kind"),
	line("get configmaps -l set=s"),
	line("get configmaps -l '!set'"),
	line("get configmaps -l 'set in (s,t),set!=t' -o name"),
	line("get configmaps --field-selector metadata.name=c2"),
	fails("get configmaps --field-selector spec.nothing=c2"),
	fails("get configmaps -l '=='"),
	line("get configmaps --sort-by=.data.k"),
	line("get configmaps --sort-by=.metadata.name -o name"),
	line("get configmaps --chunk-size=1"),
	line("get configmap,serviceaccount"),
	line("get configmap/c1 serviceaccount/default -o json"),
	fails("get configmap c1 missing"),
	line("get configmap missing --ignore-not-found"),
	line("get all"),
	line("get namespaces kube-system default"),
	line("get configmaps -A --field-selector metadata.name=kube-root-ca.crt,metadata.namespace=$N"),
	line("get --raw /api/v1/namespaces/$N/configmaps/c1"),
	line("get --raw /api/v1/namespaces/$N/configmaps?labelSelector=set%3Ds&limit=1").with(replaced(`"continue":"[^"]+"`, `"continue":"..."`)),
	fails("get --raw /api/v1/namespaces/$N/configmaps/missing"),
	fails("get --raw /apis/none.example.com/v1"),
	line("get priorityclasses,ingressclasses -o name"),
	line("describe configmap c1"),
	line("describe namespace $N"),
	fails("get nothings"),
	differs("get configmap 'a\\b'", "ks-apiserver refuses a path that two readers may read differently, and a name has no backslash"),
	fails("get pods missing"),
	line("create -f event.json"),
	line("get events"),
	line("events"),
	line("describe configmap/c1"),
	line("get configmap c1 -v=6"),
	line("get configmaps -v=8"),
	{line: "get configmap missing -v=8", code: 1},
	line("create configmap c8 --from-literal=a=b -v=8").with(replaced(`(?m)^\t[0-9a-f]{8}  .*\n`, "")), // the body's dump has the namespace

	line("patch configmap c8 -p '{\"data\":{\"a\":\"c\"}}' -v=8"),
	line("delete configmap c8 -v=8"),
	line("delete configmap -l set=s"),
}

var changes = []command{
	input("apply -f -", appliedMap),
	input("apply -f -", appliedMap),
	input("apply --dry-run=client -f -", appliedMap),
	line("apply --dry-run=server -f changed.json -o yaml"),
	{line: "diff -f changed.json", code: 1, alter: replaced(`/tmp/(LIVE|MERGED)-\d+`, "/tmp/$1")},
	line("apply -f changed.json"),
	line("apply view-last-applied configmap/applied"),
	refused("apply --server-side --field-manager=other -f -", appliedMap),
	input("apply --server-side --field-manager=other --force-conflicts -f -", appliedMap),
	line("get configmap applied -o yaml --show-managed-fields"),
	line("patch configmap applied --type=strategic -p '{\"data\":{\"s\":\"1\"}}'"),
	line("patch configmap applied --type=merge -p '{\"data\":{\"m\":\"one\",\"s\":null}}' -o yaml"),
	line("patch configmap applied --type=json -p '[{\"op\":\"add\",\"path\":\"/data/j\",\"value\":\"one\"}]'"),
	fails("patch configmap applied --type=json -p '[{\"op\":\"test\",\"path\":\"/data/j\",\"value\":\"two\"}]'"),
	fails("patch configmap applied --type=merge -p '{\"data\":'"),
	line("patch configmap missing -p '{}' --dry-run=client").code1(),
	line("edit configmap applied"),
	line("get configmap applied -o json"),
	input("replace -f -", appliedMap),
	refused("replace -f -", strings.Replace(appliedMap, `"name":"applied"`, `"name":"applied","resourceVersion":"1"`, 1)),
	line("label configmap applied a=b c=d"),
	fails("label configmap applied a=other"),
	line("label configmap applied a=other c- --overwrite"),
	line("label configmap applied a=x --overwrite --dry-run=server -o yaml"),
	line("annotate configmap applied note='some words'"),
	line("annotate configmap applied note-"),
	fails("annotate configmap missing note=x"),
	line("create secret generic s --from-literal=password=hidden -o yaml"),
	line("describe secret s"),
	line("create configmap dry --from-literal=a=b --dry-run=server -o json"),
	fails("create configmap applied"),
	refused("create -f -", unknownField),
	input("create --validate=warn --dry-run=server -f -", unknownField),
	input("create --validate=ignore --dry-run=server -f -", unknownField),
	input("create --dry-run=server -f -", twiceField), // kubectl itself takes the last
	refused("create --validate=strict -f -", wrongType),
	refused("create -f -", invalidName),
	refused("create -f -", unknownKind),
	refused("create -f -", invalidSpec),
	input("create --dry-run=server -f -", warnedPod),
	line("create serviceaccount sa"),
	line("create role reader --verb=get,list --resource=configmaps"),
	line("create rolebinding reader --role=reader --serviceaccount=$N:sa"),
	line("create quota q --hard=configmaps=20"),
	line("describe role reader"),
	line("describe rolebinding reader"),
	line("create token sa --duration=10m").with(replaced(`(?m)^[\w-]+\.[\w-]+\.[\w-]+$`, "TOKEN")),
	fails("create token missing"),
	line("auth can-i create pods"),
	differs("auth can-i get configmaps --as=system:serviceaccount:$N:sa", noImpersonation),
	differs("get configmaps -o name --as=system:serviceaccount:$N:sa", noImpersonation),
	fails("get nodes --as-group=system:nodes --as=nobody -o name").with(replaced(`(?s).*`, "")), // refused by each in words of its own
	differs("auth whoami", ownersRights),
	differs("auth can-i --list", ownersRights),
	line("auth reconcile -f role.json --dry-run=client").code1(),
	fails("delete configmap missing"),
	line("delete configmap missing --ignore-not-found"),
	line("delete configmap applied --dry-run=server"),
	line("delete configmap applied --now"),
	line("delete secret s --wait=false"),
	line("delete role,rolebinding --all"),
}

func (c command) code1() command { c.code = 1; return c }

// rolledOut is after each change of the deployment's template, because its controller makes one replica set of two that it sees at once.
var rolledOut = line("rollout status deployment/app --timeout=240s").with(replaced(`(?m)^Waiting.*\n`, ""))

var workloads = []command{
	line("create -f deployment.json"),
	line("wait --for=condition=Available deployment/app --timeout=240s"),
	line("rollout status deployment/app"),
	line("get deployment app -o wide"),
	line("describe deployment app --show-events=false"),
	line("scale deployment app --replicas=2"),
	line("wait --for=jsonpath='{.status.readyReplicas}'=2 deployment/app --timeout=240s"),
	line("get replicasets -o wide"),
	fails("scale deployment app --current-replicas=7 --replicas=1"),
	line("autoscale deployment app --min=1 --max=3 --cpu=50%"),
	line("get hpa app -o jsonpath='{.spec}'"),
	line("set image deployment/app c=example/web:2"),
	rolledOut,
	line("rollout history deployment/app"),
	line("rollout history deployment/app --revision=2"),
	line("rollout undo deployment/app"),
	rolledOut,
	line("get deployment app -o jsonpath='{.spec.template.spec.containers[0].image}'"),
	line("rollout restart deployment/app"),
	rolledOut,
	line("rollout pause deployment/app"),
	fails("rollout pause deployment/app"),
	line("rollout resume deployment/app"),
	line("set resources deployment/app -c c --requests=cpu=1m"),
	rolledOut,
	line("set env deployment/app A=B"),
	rolledOut,
	line("expose deployment app --port=80 --target-port=8080"),
	line("get service app -o wide"),
	line("get service app -o jsonpath='{.spec.ports}'"),
	line("run once --image=example/web:1 --restart=Never --overrides='{\"spec\":{\"nodeName\":\"dev-node-0\"}}'"),
	line("wait --for=condition=Ready pod/once --timeout=240s"),
	line("get pod once -o wide"),
	line("delete pod once --wait=true --grace-period=1"),
	line("wait --for=delete pod/once --timeout=240s"),
	line("delete deployment app --cascade=orphan"),
	line("get replicasets -o jsonpath='{.items[0].metadata.ownerReferences}'"),
	// A restart is written into the template with its time, so that no two have one hash. One in forty runs has a hash like an age: 86d4d.
	line("delete replicasets --all --cascade=foreground").with(replaced(`app-([0-9a-z]+| AGE )`, "app-HASH")),
	line("delete service app --cascade=background"),
	line("cordon $NODE"),
	line("get node $NODE"),
	line("cordon $NODE"),
	line("taint node $NODE same=v:PreferNoSchedule"),
	line("taint node $NODE same-"),
	input("create -f -", unschedulable),
	line("drain $NODE --pod-selector=drained=$N --force --timeout=240s"),
	line("uncordon $NODE"),
	fails("drain missing-node"),
	fails("top nodes"),
	fails("top pods"),
	line("create job once --image=example/web:1 --dry-run=server -o name"),
	line("create cronjob nightly --image=example/web:1 --schedule='1 2 * * *'"),
	line("get cronjob nightly -o jsonpath='{.spec.schedule}'"),
	fails("certificate approve missing"),
}

var documents = []command{
	line("create -f crd.json"),
	line("wait --for=condition=Established crd/things.$N.example.com --timeout=240s"),
	line("wait --for=jsonpath='{.status.acceptedNames.kind}'=Thing crd/things.$N.example.com"),
	line("api-resources --api-group=apps"),
	line("api-resources --namespaced=false --verbs=list -o name --api-group=rbac.authorization.k8s.io"),
	line("api-resources --api-group=iam.kubesphere.io -o wide"),
	line("api-resources --sort-by=name --cached").with(withoutOther("example.com")),
	line("api-versions").with(withoutOther("example.com")),
	line("explain deployment.spec.strategy"),
	line("explain pod.spec.containers --recursive"),
	line("explain pods --output=plaintext-openapiv2"),
	fails("explain pod.spec.nothing"),
	fails("explain nothings"),
	line("explain users --api-version=iam.kubesphere.io/v1beta1 --recursive"),
	line("explain configmap.data"),
	line("cluster-info"),
	differs("version", ourVersion),
	differs("version -o json", ourVersion),
	differs("get --raw /version", ourVersion),
	differs("get --raw /readyz?verbose", ourHealth),
	differs("get --raw /livez?verbose", ourHealth),
	line("get --raw /readyz"),
	line("get --raw /livez"),
	line("get --raw /healthz"),
	line("get --raw /api"),
	line("get --raw /api/v1"),
	line("get --raw /apis/apps/v1"),
	differs("get --raw /openapi/v3", ourAPI),
	differs("get --raw /", ourAPI),
	line("create -f thing.json"),
	line("get things.$N.example.com"),
	line("get things.$N.example.com one -o yaml"),
	line("describe things.$N.example.com one"),
	line("explain thing.spec --api-version=$N.example.com/v1"),
	line("scale things.$N.example.com one --replicas=5"),
	line("get things.$N.example.com one -o jsonpath='{.spec.size}'"),
	line("patch things.$N.example.com one --type=merge -p '{\"spec\":{\"size\":7}}'"),
	line("patch things.$N.example.com one --type=merge --subresource=status -p '{\"status\":{\"size\":7}}'"),
	fails("patch things.$N.example.com one -p '{\"spec\":{\"size\":1}}'"),
	fails("patch things.$N.example.com one --type=merge -p '{\"spec\":{\"size\":0}}'"),
	fails("explain pod --api-version=apps/v9"),
	line("delete crd things.$N.example.com"),
}

// withoutOther leaves out the lines with a word, which are of other tests and of the two sides.
func withoutOther(word string) func(kubectlAnswer) kubectlAnswer {
	return replaced(`(?m)^.*`+regexp.QuoteMeta(word)+`.*\n`, "")
}

var streams = []command{
	{
		line: "get configmaps -w --output-watch-events", begun: "kube-root-ca.crt", until: "DELETED",
		meanwhile: []string{"create configmap watched", "label configmap watched a=b", "delete configmap watched"},
	},
	line("create configmap first"),
	{
		line: "get configmap first -w -o jsonpath='{.data.at}{\"\\n\"}'", until: "end",
		meanwhile: []string{`patch configmap first -p '{"data":{"at":"begin"}}'`, `patch configmap first -p '{"data":{"at":"end"}}'`},
	},
	{
		line: "get --raw /api/v1/namespaces/$N/configmaps?watch=true&fieldSelector=metadata.name%3Draw&timeoutSeconds=240&sendInitialEvents=true" +
			"&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		begun: "BOOKMARK", until: "DELETED", meanwhile: []string{"create configmap raw", "delete configmap raw"},
		// A bookmark that says no more than a version comes once a minute.
		alter: replaced(`(?m)^\{"type":"BOOKMARK","object":\{"kind":"ConfigMap","apiVersion":"v1","metadata":\{"resourceVersion":"[^"]*"\}\}\}\n?`, ""),
	},
	line("apply -f pod.json"),
	line("wait --for=condition=Ready pod/web --timeout=240s"),
	line("get pods"),
	line("get pods -o wide"),
	line("get pod web -o json"),
	line("describe pod web"),
	line("logs web --tail=2"),
	line("logs -l app=web --prefix --tail=1"),
	fails("logs web -c missing"),
	fails("logs missing"),
	line("exec web -- echo hello"),
	input("exec -i web -- cat", "typed\n"),
	ends("exec web -- sh -c 'echo out; echo err >&2; exit 3'", 3),
	fails("exec web -c missing -- true"),
	fails("exec missing -- true"),
	fails("attach missing"), // of a simulated container, attach follows the log for ever
	// What tar says comes on a stream of its own, which kubectl does not always wait for.
	line("cp web:/proc/version version").with(replaced(`tar: .*\n?`, "")),
	fails("cp missing:/proc/version version"),
	{line: "port-forward pod/web --address 127.0.0.1 :80", until: "Forwarding"},
	fails("port-forward pod/missing :80"),
	fails("port-forward service/missing :80"),
	{line: "proxy --port=0", until: "Starting to serve"},
	line("get --raw /api/v1/namespaces/$N/pods/web/log?tailLines=1"),
	fails("get --raw /api/v1/namespaces/$N/pods/web/log?container=none"),
	line("debug web --image=example/tool --target=c -c dbg --attach=false -q"),
	line("delete pod web --grace-period=0 --force"),
}
