// Command kubectl is Kubernetes' own. It is no role of dev: alone it starts in half the time, and the tests start it often.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plug-ins of kubeconfigs
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
