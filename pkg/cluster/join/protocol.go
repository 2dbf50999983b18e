// Package join is how a member cluster joins a fleet: what is sent, and the tokens that let it in.
package join

import "time"

const (
	// PathJoin takes a Request.
	PathJoin = "/fleet/join"
	// PathLinks is followed by the UID of a Cluster, and becomes a link.
	PathLinks = "/fleet/links/"
	// HeaderReplica names, in the answer to who links, the replica of the hub.
	HeaderReplica = "X-Kapis-Replica"
	// HeaderReplicas says how many there are.
	HeaderReplicas = "X-Kapis-Replicas"
	// MaxRequest bounds the body of a Request, in bytes.
	MaxRequest = 32 << 10

	// life is how long a token counts at most. It is the same one for half of that, so that who asks again sees what is in use.
	life = 30 * time.Minute
	// prefix begins tokens, so that scanners of secrets find them.
	prefix = "ksj_"
)

// Request asks to join, or for the next certificate.
type Request struct {
	// Token is a token for one Cluster; "" for who has joined and renews.
	Token string `json:"token,omitempty"`
	// CSR is a certificate request (PKCS #10, RFC 2986), in PEM, for a key on the curve P-256. Its names are not read.
	CSR string `json:"csr"`
	// Certificate is the current one, in PEM, and Signature that of its key (ECDSA, ASN.1, base64) on the SHA-256 of CSR: for who renews.
	Certificate string `json:"certificate,omitempty"`
	Signature   string `json:"signature,omitempty"`
	// UID is that of the namespace kube-system, and the versions are those of Kubernetes and of this software.
	UID               string `json:"uid"`
	KubernetesVersion string `json:"kubernetesVersion"`
	Version           string `json:"version"`
}

// Answer lets a member in.
type Answer struct {
	// Cluster is the name of the Cluster, and UID its UID.
	Cluster string `json:"cluster"`
	UID     string `json:"uid"`
	// Certificate is the member's, and Authorities are those of the fleet, in PEM.
	Certificate string `json:"certificate"`
	Authorities string `json:"authorities"`
}

// PathDirect is where the hub dials a direct member.
const PathDirect = "/fleet/direct"
