package kit_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
)

const planOfShop = `
apiVersion: kubesphere.io/v1alpha1
kind: InstallPlan
metadata: {name: shop}
spec: {extension: {name: shop, version: 1.0.0}}
`

func logOf(t *testing.T, p *platform) (string, error) {
	t.Helper()
	var out strings.Builder
	err := p.Log(t.Context(), &out, "shop")
	return out.String(), err
}

func TestTheLogOfAnInstallationIsWhereItsPlanSays(t *testing.T) {
	const failed = planOfShop + "status: {state: InstallFailed, targetNamespace: own, releaseName: shop, conditions: [" +
		"{type: Approved, status: 'True', reason: Approved, message: approved by ann}, " +
		"{type: Installed, status: 'False', reason: Failed, message: it is refused}]}\n"
	const log = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: own, name: shop-log}\ndata: {log: \"render: 3 objects\\napply: refused\\n\"}\n"
	for name, c := range map[string]struct {
		objects []string
		want    string
	}{
		"failed": {[]string{failed, log}, "shop 1.0.0: InstallFailed\n  Installed: it is refused (Failed)\nThe log of the last operation that has ended:\n" +
			"render: 3 objects\napply: refused\n"},
		"not begun": {[]string{planOfShop + "status: {state: Preparing}\n"}, "shop 1.0.0: Preparing\nNo operation has begun yet, so there is no log.\n"},
		"under way": {[]string{failed}, "shop 1.0.0: InstallFailed\n  Installed: it is refused (Failed)\n" +
			"No operation has ended yet: its log will be the ConfigMap shop-log of the namespace own.\n"},
	} {
		p := newPlatform(t, c.objects...)
		if got, err := logOf(t, p); err != nil || got != c.want {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if p.writes() > 0 {
			t.Errorf("%s: it writes", name)
		}
	}
	p := newPlatform(t)
	if got, err := logOf(t, p); err == nil || !strings.Contains(err.Error(), "no InstallPlan shop") || got != "" {
		t.Errorf("without a plan: %q %v", got, err)
	}
	p = newPlatform(t, failed, log)
	p.fake.PrependReactor("get", "configmaps", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	if got, err := logOf(t, p); err == nil || !strings.Contains(err.Error(), "shop-log of the namespace own") ||
		!strings.Contains(got, "InstallFailed") {
		t.Errorf("whoever may not read the log: %q %v", got, err)
	}
}
