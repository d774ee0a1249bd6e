package deploy

// controllerInstallations has every switch of the controller.
func controllerInstallations() map[string]installation {
	with := func(values ...string) []string { return set(append([]string{"controller.enabled=true"}, values...)...) }
	return map[string]installation{
		"a controller": {
			with(),
			[]string{
				"kind: Deployment", "kind: PodDisruptionBudget", "replicas: 2", "command: [/liveconfig-controller]", "runAsNonRoot: true",
				"readOnlyRootFilesystem: true", "capabilities:\n              drop:\n              - ALL", "name: liveconfig-controller-in-namespace",
				"resources: [configmaps, secrets]", "resources: [localsubjectaccessreviews]", `- "--evidence"`, "resources: [pods/portforward]\n    verbs: [create]", `resourceNames: ["liveconfig-controller"]`,
				"topologyKey: kubernetes.io/hostname",
			},
			[]string{"--namespaces", "--lease-name", "--dry-run", "--rollout-rate", "--secrets", "--compat-reloader", "kind: Service\n", "kind: PodMonitor"},
		},
		"a controller for some namespaces": {
			with("controller.namespaces={default,kube-system}"),
			[]string{`- "--namespaces=default,kube-system"`, `namespace: "kube-system"`},
			[]string{"name: liveconfig-controller-in-namespace\n  labels"},
		},
		"a controller without Secrets": {
			with("controller.secrets=false"),
			[]string{`- "--secrets=false"`},
			[]string{"secrets]", "subjectaccessreviews"},
		},
		"a controller beside a driver that reads Secrets": {
			with("identity.secrets=driver", "driverName=csi.example.org"),
			[]string{`- "--secret-identity=driver"`, `- "--driver-name=csi.example.org"`},
			nil,
		},
		"a controller that goes by the time alone": {
			with("controller.evidence=false"), nil, []string{"--evidence", "resources: [pods/portforward]"},
		},
		"a controller that reads annotations of Reloader": {with("controller.compat.reloader=true"), []string{`- "--compat-reloader=true"`}, nil},
		"a controller that removes the taint of nodes": {
			with("controller.nodeTaint=true"),
			[]string{
				`- "--node-taint=true"`, "resources: [nodes]\n    verbs: [get, list, watch, patch]", "kind: ValidatingAdmissionPolicyBinding",
				"tolerations:\n        # Where all nodes are new, it runs on one that has the taint.\n        - key: liveconfig.internal/driver-not-ready",
				`"system:serviceaccount:liveconfig-system:liveconfig-controller"`,
			},
			nil,
		},
		"a controller that writes names into Roles": {
			with("controller.roles=true", "controller.policy=false"),
			[]string{`- "--roles=true"`, "resources: [roles]\n    verbs: [get, list, watch, patch]", "name: liveconfig-controller-roles"},
			[]string{"name: liveconfig-controller-copies"},
		},
		"a controller that only says which names it would write": {
			with("controller.roles=true", "controller.dryRun=true"),
			[]string{"resources: [roles]\n    verbs: [get, list, watch]"},
			[]string{"kind: ValidatingAdmissionPolicy"},
		},
		"a controller that only says": {
			with("controller.dryRun=true"),
			[]string{`- "--dry-run=true"`},
			[]string{"watch, patch", "delete]", "watch, create", "subjectaccessreviews", "kind: ValidatingAdmissionPolicy"},
		},
		"a controller with its policies": {
			with("driverName=csi.example.org"),
			[]string{
				"name: liveconfig-controller-copies", "name: liveconfig-controller-workloads", "name: liveconfig-controller-revisions",
				`k == "csi" && f.driver == "csi.example.org" ? f.transformMap(l, g, l != "volumeAttributes" ? g :`,
			},
			[]string{"csi.liveconfig.internal"},
		},
		"a controller of a cluster whose policies lack functions": {
			append(with(), "--kube-version", "1.32.9"),
			[]string{"name: liveconfig-controller-copies"},
			[]string{"name: liveconfig-controller-workloads", "name: liveconfig-controller-revisions"},
		},
		"a controller of a cluster without policies": {append(with(), "--kube-version", "1.29.0"), nil, []string{"kind: ValidatingAdmissionPolicy"}},
		"a controller without policies":              {with("controller.policy=false"), nil, []string{"kind: ValidatingAdmissionPolicy"}},
		"a controller with separate times": {
			with("controller.quietPeriod=10s", "controller.progressDeadline=5m", "controller.rolloutRate=0.5", "controller.holdFailing=false",
				"controller.log.verbosity=4", "controller.log.format=json"),
			[]string{
				`- "--quiet-period=10s"`, `- "--progress-deadline=5m"`, `- "--rollout-rate=0.5"`, `- "--hold-failing=false"`, `- "-v=4"`,
				`- "--log-format=json"`,
			},
			nil,
		},
		"a controller where it is wanted": {
			append(with("controller.replicas=1", "controller.nodeSelector.pool=system", "controller.podLabels.team=a", "controller.podAnnotations.note=b",
				"controller.priorityClassName=system-cluster-critical", "controller.resources.limits.memory=1Gi", "imagePullSecrets[0].name=registry"),
				"--set-json", `controller.tolerations=[{"key":"control","operator":"Exists"}]`,
				"--set-json", `controller.topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`),
			[]string{
				"replicas: 1", "pool: system", "team: a", "note: b", `priorityClassName: "system-cluster-critical"`, "memory: 1Gi",
				"key: control", "topologyKey: zone",
			},
			nil,
		},
		"a controller of nulls": {
			with("controller.podLabels=null", "controller.podAnnotations=null", "controller.tolerations=null", "controller.nodeSelector=null",
				"controller.affinity=null", "controller.topologySpreadConstraints=null", "controller.extraArgs=null", "controller.resources=null",
				"controller.priorityClassName=null", "controller.namespaces=null", "controller.log.format=json"),
			nil,
			[]string{"null", "topologySpread"},
		},
		"a controller on another port": {
			with("controller.http.port=19810", "service.enabled=true", "controller.podMonitor.enabled=true"),
			[]string{"- --http-endpoint=:19810", "containerPort: 19810", "port: 19810", "app.kubernetes.io/component: controller"},
			nil,
		},
		"a controller without a port": {
			with("controller.http.port=null", "controller.log.format=json"),
			[]string{"policyTypes: [Ingress]"},
			[]string{"19810"},
		},
	}
}
