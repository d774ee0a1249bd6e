package e2e_test

// long is the attributes of a volume with sources.
func long(sources string) map[string]string { return map[string]string{"sources": sources} }

// withMode is those of one with a default mode.
func withMode(mode, sources string) map[string]string {
	return map[string]string{"sources": sources, "defaultMode": mode}
}

// The sources of upstream's tests.
const (
	mapSource          = "- configMap: {name: OBJECT}"
	mappedMapSource    = "- configMap: {name: OBJECT, items: " + mapItem + "}"
	secretSource       = "- secret: {name: OBJECT}"
	mappedSecretSource = "- secret: {name: OBJECT, items: " + secretItem + "}"
)

// projectedConfigMapScenarios are those of volumes with a ConfigMap among their sources.
func projectedConfigMapScenarios() map[string]scenario {
	return map[string]scenario{
		"every key is a file of mode 0644": {
			upstream: "should be consumable from pods in volume",
			given:    theMap(), volumes: one(long(mapSource)), want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"files have the default mode": {
			upstream: "should be consumable from pods in volume with defaultMode set [LinuxOnly]",
			given:    theMap(), volumes: one(withMode("0400", mapSource)), want: every(mapData(), "-r-------- 0 0", "/config"),
		},
		"a user reads by the fsGroup what the default mode keeps from others": {
			upstream: "should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly]",
			given:    theMap(), volumes: one(withMode("0440", mapSource)), user: 1000, group: 1001,
			want: every(mapData(), "-r--r----- 0 1001", "/config"),
		},
		"a user reads": {
			upstream: "should be consumable from pods in volume as non-root",
			given:    theMap(), volumes: one(long(mapSource)), user: 1000,
			want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a user with an fsGroup reads": {
			upstream: "should be consumable from pods in volume as non-root with FSGroup [LinuxOnly]",
			given:    theMap(), volumes: one(long(mapSource)), user: 1000, group: 1001,
			want: every(mapData(), "-rw-r--r-- 0 1001", "/config"),
		},
		"a key is where its item says": {
			upstream: "should be consumable from pods in volume with mappings",
			given:    theMap(), volumes: one(long(mappedMapSource)),
			want: files{"/config/path/to/data-2": "-rw-r--r-- 0 0 value-2"},
		},
		"a key has the default mode where its item says": {
			upstream: "should be consumable from pods in volume with mappings and Item mode set [LinuxOnly]",
			given:    theMap(), volumes: one(withMode("0400", mappedMapSource)),
			want: files{"/config/path/to/data-2": "-r-------- 0 0 value-2"},
		},
		"a user reads where the item says": {
			upstream: "should be consumable from pods in volume with mappings as non-root",
			given:    theMap(), volumes: one(long(mappedMapSource)), user: 1000,
			want: files{"/config/path/to/data-2": "-rw-r--r-- 0 0 value-2"},
		},
		"a user with an fsGroup reads where the item says": {
			upstream: "should be consumable from pods in volume with mappings as non-root with FSGroup [LinuxOnly]",
			given:    theMap(), volumes: one(long(mappedMapSource)), user: 1000, group: 1001,
			want: files{"/config/path/to/data-2": "-rw-r--r-- 0 1001 value-2"},
		},
		"a change is in the file": {
			upstream: "updates should be reflected in volume",
			given:    []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-1": "value-1"}}},
			volumes:  one(long(mapSource)),
			want:     files{"/config/data-1": "-rw-r--r-- 0 0 value-1"},
			edits: []edit{{
				put:  []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-1": "value-2"}}},
				want: files{"/config/data-1": "-rw-r--r-- 0 0 value-2"},
			}},
		},
		"optional ConfigMaps come, change and go": {
			upstream: "optional updates should be reflected in volume",
			given:    beforeUpdates(configMapKind),
			volumes: []map[string]string{
				long("- configMap: {name: OBJECT-delete, optional: true}"),
				long("- configMap: {name: OBJECT-update, optional: true}"),
				long("- configMap: {name: OBJECT-create, optional: true}"),
			},
			want: filesBeforeUpdates(), edits: optionalUpdates(configMapKind),
		},
		"two volumes of a pod have the same ConfigMap": {
			upstream: "should be consumable in multiple volumes in the same pod",
			given:    theMap(), volumes: []map[string]string{long(mapSource), long(mapSource)},
			want: every(mapData(), "-rw-r--r-- 0 0", "/config", "/config-2"),
		},
		"a pod waits for its ConfigMap": {
			upstream: "Should fail non-optional pod creation due to configMap object does not exist",
			volumes:  one(long("- configMap: {name: OBJECT, optional: false}")),
			refused:  `configmap "OBJECT" not found`, mended: theMap(),
			want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a pod waits for a key of its ConfigMap": {
			upstream: "Should fail non-optional pod creation due to the key in the configMap object does not exist",
			given:    theMap(),
			volumes: one(long(
				"- configMap: {name: OBJECT, optional: false, items: [{key: data-4, path: path/to/data-4}]}",
			)),
			refused: "configmap references non-existent config key: data-4",
			mended:  []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-4": "value-4"}}},
			want:    files{"/config/path/to/data-4": "-rw-r--r-- 0 0 value-4"},
		},
	}
}

// projectedSecretScenarios are those of volumes with a Secret among their sources.
func projectedSecretScenarios() map[string]scenario {
	return map[string]scenario{
		"every key is a file of mode 0644": {
			upstream: "should be consumable from pods in volume",
			given:    theSecret(), volumes: one(long(secretSource)), want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"files have the default mode": {
			upstream: "should be consumable from pods in volume with defaultMode set [LinuxOnly]",
			given:    theSecret(), volumes: one(withMode("0400", secretSource)),
			want: every(secretData(), "-r-------- 0 0", "/config"),
		},
		"a user reads by the fsGroup what the default mode keeps from others": {
			upstream: "should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly]",
			given:    theSecret(), volumes: one(withMode("0440", secretSource)), user: 1000, group: 1001,
			want: every(secretData(), "-r--r----- 0 1001", "/config"),
		},
		"a key is where its item says": {
			upstream: "should be consumable from pods in volume with mappings",
			given:    theSecret(), volumes: one(long(mappedSecretSource)),
			want: files{"/config/new-path-data-1": "-rw-r--r-- 0 0 value-1\n"},
		},
		"a key has the default mode where its item says": {
			upstream: "should be consumable from pods in volume with mappings and Item Mode set [LinuxOnly]",
			given:    theSecret(), volumes: one(withMode("0400", mappedSecretSource)),
			want: files{"/config/new-path-data-1": "-r-------- 0 0 value-1\n"},
		},
		"a Secret of the same name in another namespace is another": {
			upstream: "should be able to mount in a volume regardless of a different secret existing with same name in different namespace",
			given:    append(otherSecret(), theSecret()...), volumes: one(long(secretSource)),
			want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"two volumes of a pod have the same Secret": {
			upstream: "should be consumable in multiple volumes in a pod",
			given:    theSecret(), volumes: []map[string]string{long(secretSource), long(secretSource)},
			want: every(secretData(), "-rw-r--r-- 0 0", "/config", "/config-2"),
		},
		"optional Secrets come, change and go": {
			upstream: "optional updates should be reflected in volume",
			given:    beforeUpdates(secretKind),
			volumes: []map[string]string{
				long("- secret: {name: OBJECT-delete, optional: true}"),
				long("- secret: {name: OBJECT-update, optional: true}"),
				long("- secret: {name: OBJECT-create, optional: true}"),
			},
			want: filesBeforeUpdates(), edits: optionalUpdates(secretKind),
		},
		"a pod waits for its Secret": {
			upstream: "Should fail non-optional pod creation due to secret object does not exist",
			volumes:  one(long("- secret: {name: OBJECT, optional: false}")),
			refused:  `secret "OBJECT" not found`, mended: theSecret(),
			want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a pod waits for a key of its Secret": {
			upstream: "Should fail non-optional pod creation due to the key in the secret object does not exist",
			given:    theSecret(),
			volumes:  one(long("- secret: {name: OBJECT, optional: false, items: [{key: data_4, path: value-4}]}")),
			refused:  "references non-existent secret key: data_4",
			mended:   []object{{kind: secretKind, name: "OBJECT", data: map[string]string{"data_4": "value-4\n"}}},
			want:     files{"/config/value-4": "-rw-r--r-- 0 0 value-4\n"},
		},
	}
}

// combinedScenarios are those of volumes with sources of several kinds.
func combinedScenarios() map[string]scenario {
	return map[string]scenario{
		"a Secret and a ConfigMap are in one volume": {
			upstream: "should project all components that make up the projection API [Projection]",
			given: []object{
				{kind: configMapKind, name: "OBJECT-map", data: map[string]string{"configmap-data": "configmap-value-1"}},
				{kind: secretKind, name: "OBJECT-secret", data: map[string]string{"secret-data": "secret-value-1"}},
			},
			volumes: one(long("- secret: {name: OBJECT-secret}\n- configMap: {name: OBJECT-map}")),
			want: files{
				"/config/secret-data":    "-rw-r--r-- 0 0 secret-value-1",
				"/config/configmap-data": "-rw-r--r-- 0 0 configmap-value-1",
			},
		},
	}
}
