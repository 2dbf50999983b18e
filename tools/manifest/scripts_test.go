package manifest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var root = filepath.Join("..", "..")

// script runs a script of bash in the repository's folder, with a kubectl that is another one.
func script(t *testing.T, kubectl, text string, env ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(file, []byte(kubectl), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "KUBECTL=bash "+file, "KUBECONFIG=/dev/null"), env...)
	out, _ := cmd.CombinedOutput() // what they do without a cluster is to fail
	return string(out)
}

// An overlay that names images of its own, also such as only differ by their tag, is said to do so.
func TestImagesThatCountForNothingAreNamed(t *testing.T) {
	const team = "registry.example.com/team/"
	for _, c := range []struct{ server, manager, want string }{
		{team + "ks-apiserver:v2", `"` + team + `ks-controller-manager:v2"`, ""},
		{team + "ks-apiserver:v1", team + "ks-controller-manager:v2", "another image of ks-apiserver"},
		{team + "ks-apiserver:v2", team + "ks-controller-manager:v21", "another image of ks-controller-manager"},
		{team + "ks-apiserver:v2", "other.example.com/ks-controller-manager:v2", "another image of ks-controller-manager"},
	} {
		objects := "        - image: " + c.server + "\n          name: a\n        - name: b\n          image: " + c.manager + "\n"
		got := script(t, `[[ $1 == kustomize && $# == 2 ]] && printf %s "$OBJECTS" || { echo "this kubectl is asked: $*" >&2; exit 1; }`, "hack/deploy.sh",
			"OBJECTS="+objects, "IMAGE_REGISTRY="+strings.TrimSuffix(team, "/"), "IMAGE_TAG=v2")
		if n := strings.Count(got, "count for nothing"); (c.want == "") != (n == 0) || n > 1 || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
		if !strings.Contains(got, "this kubectl is asked: kustomize") {
			t.Errorf("the installation uses another kubectl: %s", got)
		}
	}
}

// Where a webhook is not answered, the scripts say what to do, whichever of ours it is.
func TestWhatToDoAboutAWebhookThatIsNotAnsweredIsSaid(t *testing.T) {
	for webhook, want := range map[string]bool{"rights.kapis.dev": true, "guard-serviceaccounts.kapis.dev": true, "policy.example.com": false} {
		got := script(t, `echo 'failed calling webhook "`+webhook+`": no endpoints' >&2; exit 1`, "root=$PWD; . hack/lib.sh; quietly apply")
		if strings.Contains(got, "does not answer") != want || !strings.Contains(got, webhook) {
			t.Errorf("%s: %s", webhook, got)
		}
	}
}

// The answer to an exchange may be lost, and so may the first attempt to see what came of it: the selector is not forgotten then.
func TestAnExchangeThatWasDoneKeepsTheSelector(t *testing.T) {
	const kubectl = `
case " $* " in
*" patch "*) echo "$STATE" >"$0.selector"; exit 1 ;;
*" get service "*) echo read >>"$0.reads"; (($(wc -l <"$0.reads") != 2)) && cat "$0.selector" ;;
*" apply "*) cat >/dev/null ;;
*" annotate "*-" ") echo "the annotation is removed" >&2 ;;
esac`
	const text = `set -euo pipefail
read -r -a KUBECTL <<<"$KUBECTL"
address=192.0.2.1 namespace=n
echo '{"app":"x"}' >"${KUBECTL[1]}.selector"
eval "$(sed -n '/^fail() /p; /^note=/,/^moved=/p; /^selector_of() /p; /^select_pods() /,/^}/p; /^exchange() /,/^}/p' hack/local-debug.sh)"
exchange ks-apiserver ports`
	for state, want := range map[string]string{`{"kapis.dev/local-debug":"exchanged"}`: "exchanged: Service", `{"app":"y"}`: "was changed at the same time"} {
		got := script(t, kubectl, text, "STATE="+state)
		if !strings.Contains(got, want) || strings.Contains(got, "the annotation is removed") == strings.HasPrefix(want, "exchanged") {
			t.Errorf("%s: %s", state, got)
		}
	}
}

// Commands of the documents that deploy name images, as config/default and config/overlays/prod do not.
func TestDocumentedDeploymentsNameImages(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	command, seen := regexp.MustCompile("\\bmake (?:[a-z]+ )*deploy +[A-Z][^`\n]*"), 0
	own := regexp.MustCompile(`OVERLAY=(config/overlays/(node|dev)|that/folder)\b`) // these have images
	const previous = "make deploy KUBECONFIG=~/.kube/config"                        // alone on its line only where the images were named before: the way back
	for _, file := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllString(string(text), -1) {
			if seen++; !strings.Contains(found, "IMAGE_REGISTRY=") && !own.MatchString(found) && !strings.HasSuffix(found, previous) {
				t.Errorf("%s: %q is refused", file, found)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d commands", seen)
	}
}

// kustomized writes what folders of config/ render to a folder of their own each, one file for an object, as kubectl kustomize does.
func kustomized(t *testing.T, folders ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, folder := range folders {
		if err := os.Mkdir(filepath.Join(to, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, object := range rendered(t, folder) {
			text, err := yaml.JSONToYAML(object)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(to, folder, strings.NewReplacer(" ", "_", ":", "_").Replace(name)+".yaml"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

// admissionPolicies returns the names of the admission policies in config/, of optional components too.
func admissionPolicies(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(config, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(file)
		for doc := range strings.SplitSeq("\n"+string(text), "\n---\n") {
			if !strings.Contains(doc, "\nkind: ValidatingAdmissionPolicy\n") {
				continue
			}
			var o metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return err
			}
			names = append(names, o.Name)
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%v: %v", names, err)
	}
	return names
}

// A new version takes away the admission policies that it no longer has, and none that an optional component has added, whose rights stay.
func TestInstallingKeepsThePoliciesOfOptionalComponents(t *testing.T) {
	const kubectl = `
case " $* " in
" kustomize "*) mkdir -p "$4" && cp "$OBJECTS/${2##*/}"/* "$4" ;;
*" get validatingadmissionpolic"*) for name in $POLICIES; do echo "validatingadmissionpolicy.admissionregistration.k8s.io/$name"; done ;;
*" apply "*) grep -hx "  name: [a-z]*\.fleet\.kapis\.dev" -r "${@: -1}" >&2 || true ;;
*" delete "*) echo "deleted:${*: -1}" ;;
esac`
	got := script(t, kubectl, "hack/install.sh", "OBJECTS="+kustomized(t, "crd", "install", "console"),
		"POLICIES="+strings.Join(append(admissionPolicies(t), "former.kapis.dev"), " "))
	if !strings.Contains(got, "\nInstalled.") || strings.Count(got, "deleted:") != 2 || // the policy and its binding
		strings.Count(got, "deleted:validatingadmissionpolicy.admissionregistration.k8s.io/former.kapis.dev\n") != 2 {
		t.Errorf("%s", got)
	}
	if strings.Contains(got, "fleet.kapis.dev") {
		t.Errorf("it applies an optional component: %s", got)
	}
}

// Nothing is deleted where the cluster can't be read, or a purge is refused.
func TestUninstallingDeletesNothingBeforeItHasReadEverything(t *testing.T) {
	const kubectl = `
case " $* " in
" kustomize "*) mkdir -p "$4" && cp "$OBJECTS/${2##*/}"/* "$4" ;;
*" get crds "*) for file in "$OBJECTS"/crd/*; do awk '/^  name: /{print "customresourcedefinition.apiextensions.k8s.io/" $2; exit}' "$file"; done ;;
*" get namespaces "*) echo "$NAMESPACES" ;;
*" get "*"/$FAILS "*) echo "the connection was refused" >&2; exit 1 ;;
*" get "*"/install "*) echo yes v1/ServiceAccount/kubesphere-system/ks-apiserver ;;
*" get "*"/crd "*) echo yes apiextensions.k8s.io/v1/CustomResourceDefinition//users.iam.kubesphere.io ;;
*" delete "*) echo "deleted: $*" >&2 ;;
esac`
	objects := kustomized(t, "crd", "install", "console")
	for _, c := range []struct{ name, fails, namespaces, purge, want string }{
		{"objects can't be read", "install", "", "no", "the connection was refused"},
		{"definitions can't be read", "crd", "", "no", "the connection was refused"},
		{"a purge that can't read the definitions", "crd", "", "yes", "the connection was refused"},
		{"a purge that is refused", "none", "shop-web tenant.kubesphere.io/v1beta1", "yes", "Refusing to purge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := script(t, kubectl, "hack/uninstall.sh", "OBJECTS="+objects, "FAILS="+c.fails, "NAMESPACES="+c.namespaces, "PURGE="+c.purge)
			if !strings.Contains(got, c.want) || strings.Contains(got, "deleted: ") || strings.Contains(got, "These stay") {
				t.Errorf("%s", got)
			}
		})
	}
	got := script(t, kubectl, "hack/uninstall.sh", "OBJECTS="+objects, "FAILS=none", "NAMESPACES=", "PURGE=yes")
	if !strings.Contains(got, "deleted: delete --ignore-not-found --cascade=background") || !strings.Contains(got, "\nPurged.") {
		t.Errorf("%s", got)
	}
}

// What is printed to be run next is for the cluster, the Service and the ports that were given. A file that can't be read is not said to be fetched.
func TestDebuggingGoesOnWithTheClusterThatWasGiven(t *testing.T) {
	const kubectl = `
case " $* " in
*"range "*) echo kubesphere.yaml ;;
*'index .data "kubesphere.yaml"'*) [[ -z ${FAILS:-} ]] && echo "# configuration" ;;
esac`
	fetch := "hack/local-debug.sh fetch --kubeconfig '/tmp/of a/kubeconfig' --namespace ours --port 9191 --tls-port 9494 --output " + t.TempDir()
	got := script(t, kubectl, fetch)
	const where = ` --kubeconfig /tmp/of\ a/kubeconfig --namespace ours `
	for _, want := range []string{"hack/local-debug.sh exchange" + where + "--port 9191 --tls-port 9494 ", "hack/local-debug.sh recover" + where} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing: %s", want, got)
		}
	}
	if got := script(t, kubectl, fetch, "FAILS=yes"); strings.Contains(got, "fetched") || strings.Contains(got, "exchange") {
		t.Errorf("%s", got)
	}
}
