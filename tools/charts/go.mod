// Charts that others publish with their programs, which tests install. Nothing is imported: go mod tidy would remove what is required.
module kapis.dev/ks-apiserver/tools/charts

go 1.26.0

require sigs.k8s.io/metrics-server v0.9.0
