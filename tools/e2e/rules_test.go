package e2e

import (
	"flag"
	"testing"

	"kapis.dev/ks-apiserver/tools/rules"
)

// held is the table of the rules of access and of the tests that hold them. It is written by the tests, with -update.
var held = rules.Table{
	File: "../../docs/rules-access.md",
	Head: "# Rules of access, and the tests that hold them\n\n" +
		"Written by `make test` (tools/e2e, with -update): each test runs over HTTP against the real binaries and a real control plane, and a\n" +
		"rule that no test holds fails the build. What is not refused to those without a right stands in tools/e2e/testdata/allowed.txt.\n",
	Sections: []rules.Section{{Name: "Authorization, others' objects, escalation", Rules: []rules.Rule{
		{"S1", "every route is refused to who has no role, or answers with his own part only; a new route that answers more fails"},
		{"S2", "a watch, of one object too, shows nothing that a list would not"},
		{"S80", "a path means one thing, whatever types are asked for: what its own route can't answer is 406, and no route of any kind takes its place"},
		{"S3", "the right to read an object shows no password, token or kubeconfig in it, at any depth"},
		{"S4", "the API group counts in every rule"},
		{"S5", "a role on a resource called namespaces in another group is none on namespaces"},
		{"S6", "nobody gives away more than he holds, by no kind of write and by no way"},
		{
			"S7",
			"a namespace is moved between workspaces by who may create namespaces in the one and update and delete them in the other, or update all; all rights in it alone are not enough",
		},
		{"S8", "the owner of a namespace does not lower its pod security"},
		{"S9", "what a binding, a role, a group, a workspace or a user gave is gone with it within five seconds, everywhere"},
		{"S10", "where a read is refused, every write is, and it leaves nothing"},
		{"S11", "no shell runs with more than its user's rights: one in a pod is an exec as the user, those of nodes (O10) and those for kubectl (O8) are off unless they are configured; none of these makes a pod"},
		{"S12", "a provider that is disabled, and a group that is gone there, end what they gave"},
		{"S68", "strangers with forged service account tokens cost a real pod nothing"},
		{"S64", "what is hidden of a kind is in no answer, by no parameter and no route (managedFields, last-applied, fields, watch...)"},
		{
			"S57",
			"no password, secret, kubeconfig, token or code is in an answer, a log of either program at its highest level, an event, a metric or a record of the audit",
		},
		{"S78", "no form of answer, parameter or content type shows a hidden value or tells of it"},
		{
			"S65",
			"a template, owner reference or finalizer of somebody's ends or changes no workspace, namespace, user, role or binding that he may not delete or update himself: the garbage collector does nothing to these for anybody that he may not do",
		},
		{"S67", "who is removed from a workspace or namespace has no right in it any more: by no binding, group, or role that is made again"},
		{"S69", "namespaces that carry the label of a workspace which is gone fall to nobody who makes one of that name without the right to these namespaces, " +
			"and neither do its objects in the application store; a release whose namespace is another workspace's by now is neither's " +
			"(TestAReleaseOfANamespaceThatHasLeftIsThePlatformsAlone)"},
		{"S74", "roles and bindings of a workspace are not deleted because a definition (CRD) is going, nor is a binding that is no longer that workspace's"},
		{"S79", "no body, however made, writes outside of what the path and the writer's rights say"},
		{"S70", "a policy in Rego, or a condition in CEL, can use neither the process's memory nor its time beyond a bound"},
	}}, {Name: "The proxy, upgrades and impersonation", Rules: proxyRules}, {Name: "Web and denial of service", Rules: webRules},
		{Name: "Configuration and installation", Rules: []rules.Rule{
			{
				"S76",
				"a new installation has no well-known client secret: it makes its own, keeps it, and shows it nowhere; one that is there stays, and is warned of; an issuer over http is for loopback, or accepted by name",
			},
			{"S77", "no random write by anybody gives anybody a right that the writer does not hold"},
		}}, {Name: "Admission", Rules: []rules.Rule{
			{"S62", "rules are compared by what they are: two different rules are never taken for one, however they read"},
			{
				"S63",
				"a rule with blanks, commas, brackets, quotes or control characters in its words is refused at every door; one that is there gives nothing, and an event says so",
			},
			{
				"S72",
				"a deletion is checked for what it does beyond its object, on every path, in collections and by owners: nobody ends a user who is above him, nor by a group a binding that he may not delete, and the last administrator stays",
			},
			{"S60", "while the webhooks are away nothing is written that they check of rights, extensions and where credentials go, and nobody takes them away for long"},
			{"S66", "a credential that nobody may read is sent to no other address than it was written for, by any kind of write through any door"},
		}}},
}

// proves says that the test which calls it holds the rules, if it passes.
func proves(t *testing.T, ids ...string) {
	t.Helper()
	held.Hold(t, ids...)
}

var update = flag.Bool("update", false, "write docs/rules-access.md in the place of checking it")

// checkRules writes the table, or says what is wrong with it, where all tests of the package have run and passed.
func checkRules() error {
	if *update {
		return held.Write()
	}
	return held.Check()
}
