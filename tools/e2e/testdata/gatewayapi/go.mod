// The definitions of the Gateway API that tests apply. Nothing of it is compiled.
module kapis.dev/ks-apiserver/tools/e2e/testdata/gatewayapi

go 1.26.0

require sigs.k8s.io/gateway-api v1.5.1
