package nodeshell_test

import (
	"encoding/json"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

const bob = "0b0b0b0b-1111-4222-8333-444444444444"

func shell(p nodeshell.Profile) nodeshell.Shell {
	return nodeshell.Shell{Node: "n", Image: "i", Profile: p, User: "bob (Ü)", UID: bob, Command: []string{"sh"}, Max: time.Hour}
}

// The admission policy in config/rbac has the same shapes.
func TestTheShapeOfEachProfile(t *testing.T) { // O10
	for profile, want := range map[nodeshell.Profile]string{
		nodeshell.Sysadmin: `{"containers":[{"name":"shell","image":"i","command":["nsenter","-m","-u","-i","-n","-p","-t","1","--","sh"],"resources":{},` +
			`"securityContext":{"privileged":true},"stdin":true,"stdinOnce":true,"tty":true}],"restartPolicy":"Never","terminationGracePeriodSeconds":1,` +
			`"activeDeadlineSeconds":3660,"automountServiceAccountToken":false,"nodeName":"n","hostPID":true,"tolerations":[{"operator":"Exists"}],` +
			`"enableServiceLinks":false}`,
		nodeshell.Netadmin: `{"containers":[{"name":"shell","image":"i","command":["sh"],"resources":{},"securityContext":{"capabilities":{"add":["NET_ADMIN",` +
			`"NET_RAW"],"drop":["ALL"]},"runAsUser":0,"allowPrivilegeEscalation":false,"seccompProfile":{"type":"RuntimeDefault"}},"stdin":true,` +
			`"stdinOnce":true,"tty":true}],"restartPolicy":"Never","terminationGracePeriodSeconds":1,"activeDeadlineSeconds":3660,` +
			`"automountServiceAccountToken":false,"nodeName":"n","hostNetwork":true,"tolerations":[{"operator":"Exists"}],"enableServiceLinks":false}`,
		nodeshell.General: `{"volumes":[{"name":"host","hostPath":{"path":"/"}}],"containers":[{"name":"shell","image":"i","command":["sh"],"resources":{},` +
			`"volumeMounts":[{"name":"host","readOnly":true,"recursiveReadOnly":"IfPossible","mountPath":"/host"}],"securityContext":{"capabilities":` +
			`{"drop":["ALL"]},"runAsUser":0,"allowPrivilegeEscalation":false,"seccompProfile":{"type":"RuntimeDefault"}},"stdin":true,"stdinOnce":true,` +
			`"tty":true}],"restartPolicy":"Never","terminationGracePeriodSeconds":1,"activeDeadlineSeconds":3660,"automountServiceAccountToken":false,` +
			`"nodeName":"n","hostPID":true,"tolerations":[{"operator":"Exists"}],"enableServiceLinks":false}`,
	} {
		got, err := json.Marshal(shell(profile).Pod().Spec)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", profile, err, got, want)
		}
	}
}

func TestAPodNamesItsUserByUID(t *testing.T) { // O10
	p := shell(nodeshell.Sysadmin).Pod()
	if p.Namespace != "kubesphere-node-shells" || p.GenerateName != "node-shell-"+bob+"-" || p.Labels[shellpod.LabelUser] != bob ||
		p.Annotations[shellpod.AnnotationUser] != "bob (Ü)" || len(p.Labels) != 2 || len(p.Annotations) != 1 {
		t.Errorf("%+v", p.ObjectMeta)
	}
}

func TestAPodOfAUserOfTheHubSaysSo(t *testing.T) { // O11
	s := shell(nodeshell.Sysadmin)
	s.FromHub = true
	if p := s.Pod(); p.Annotations[shellpod.AnnotationFromHub] != "true" || p.Annotations[shellpod.AnnotationUser] != s.User || len(p.Labels) != 2 {
		t.Errorf("%+v", p.ObjectMeta)
	}
}

func TestAPodWithoutALimitHasNoDeadline(t *testing.T) { // O10
	s := shell(nodeshell.General)
	s.Max = 0
	if d := s.Pod().Spec.ActiveDeadlineSeconds; d != nil {
		t.Errorf("%d", *d)
	}
}
