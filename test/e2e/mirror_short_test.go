package e2e_test

// The data of upstream's ConfigMaps, and of its Secrets, which end in newlines.
func mapData() map[string]string {
	return map[string]string{"data-1": "value-1", "data-2": "value-2", "data-3": "value-3"}
}

func secretData() map[string]string {
	return map[string]string{"data-1": "value-1\n", "data-2": "value-2\n", "data-3": "value-3\n"}
}

// theMap is OBJECT as a ConfigMap.
func theMap() []object { return []object{{kind: configMapKind, name: "OBJECT", data: mapData()}} }

// theSecret is OBJECT as a Secret.
func theSecret() []object { return []object{{kind: secretKind, name: "OBJECT", data: secretData()}} }

// every is the files of volumes with each key under its own name.
func every(data map[string]string, attributes string, roots ...string) files {
	all := files{}
	for _, root := range roots {
		for key, value := range data {
			all[root+"/"+key] = attributes + " " + value
		}
	}
	return all
}

// one is the attributes of a single volume.
func one(attributes map[string]string) []map[string]string { return []map[string]string{attributes} }

// beforeUpdates is what optional sources have at first; the third of them does not exist.
func beforeUpdates(kind string) []object {
	data := map[string]string{"data-1": "value-1"}
	return []object{{kind: kind, name: "OBJECT-delete", data: data}, {kind: kind, name: "OBJECT-update", data: data}}
}

// optionalUpdates deletes the first of three optional sources, gives the second another key and creates the third.
func optionalUpdates(kind string) []edit {
	return []edit{{
		drop: []object{{kind: kind, name: "OBJECT-delete"}},
		put: []object{
			{kind: kind, name: "OBJECT-update", data: map[string]string{"data-3": "value-3"}},
			{kind: kind, name: "OBJECT-create", data: map[string]string{"data-1": "value-1"}},
		},
		want: files{"/config-2/data-3": "-rw-r--r-- 0 0 value-3", "/config-3/data-1": "-rw-r--r-- 0 0 value-1"},
	}}
}

// filesBeforeUpdates is what volumes of [beforeUpdates] have.
func filesBeforeUpdates() files {
	return files{"/config/data-1": "-rw-r--r-- 0 0 value-1", "/config-2/data-1": "-rw-r--r-- 0 0 value-1"}
}

// The items of upstream's tests.
const (
	mapItem    = "[{key: data-2, path: path/to/data-2}]"
	secretItem = "[{key: data-1, path: new-path-data-1}]"
)

// configMapScenarios are those of volumes of one ConfigMap.
func configMapScenarios() map[string]scenario {
	plain, mapped := map[string]string{"configMap": "OBJECT"}, map[string]string{"configMap": "OBJECT", "items": mapItem}
	return map[string]scenario{
		"every key is a file of mode 0644": {
			upstream: "should be consumable from pods in volume",
			given:    theMap(), volumes: one(plain), want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"files have the default mode": {
			upstream: "should be consumable from pods in volume with defaultMode set [LinuxOnly]",
			given:    theMap(), volumes: one(map[string]string{"configMap": "OBJECT", "defaultMode": "0400"}),
			want: every(mapData(), "-r-------- 0 0", "/config"),
		},
		"a user reads by the fsGroup what the default mode keeps from others": {
			upstream: "should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly]",
			given:    theMap(), volumes: one(map[string]string{"configMap": "OBJECT", "defaultMode": "0440"}),
			user: 1000, group: 1001, want: every(mapData(), "-r--r----- 0 1001", "/config"),
		},
		"a user reads": {
			upstream: "should be consumable from pods in volume as non-root",
			given:    theMap(), volumes: one(plain), user: 1000, want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a user with an fsGroup reads": {
			upstream: "should be consumable from pods in volume as non-root with FSGroup [LinuxOnly]",
			given:    theMap(), volumes: one(plain), user: 1000, group: 1001,
			want: every(mapData(), "-rw-r--r-- 0 1001", "/config"),
		},
		"a key is where its item says": {
			upstream: "should be consumable from pods in volume with mappings",
			given:    theMap(), volumes: one(mapped), want: files{"/config/path/to/data-2": "-rw-r--r-- 0 0 value-2"},
		},
		"a key has the mode of its item": {
			upstream: "should be consumable from pods in volume with mappings and Item mode set [LinuxOnly]",
			given:    theMap(),
			volumes:  one(map[string]string{"configMap": "OBJECT", "items": "[{key: data-2, path: path/to/data-2, mode: 0400}]"}),
			want:     files{"/config/path/to/data-2": "-r-------- 0 0 value-2"},
		},
		"a user reads where the item says": {
			upstream: "should be consumable from pods in volume with mappings as non-root",
			given:    theMap(), volumes: one(mapped), user: 1000,
			want: files{"/config/path/to/data-2": "-rw-r--r-- 0 0 value-2"},
		},
		"a user with an fsGroup reads where the item says": {
			upstream: "should be consumable from pods in volume with mappings as non-root with FSGroup [LinuxOnly]",
			given:    theMap(), volumes: one(mapped), user: 1000, group: 1001,
			want: files{"/config/path/to/data-2": "-rw-r--r-- 0 1001 value-2"},
		},
		"a change is in the file": {
			upstream: "updates should be reflected in volume",
			given:    []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-1": "value-1"}}},
			volumes:  one(plain),
			want:     files{"/config/data-1": "-rw-r--r-- 0 0 value-1"},
			edits: []edit{{
				put:  []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-1": "value-2"}}},
				want: files{"/config/data-1": "-rw-r--r-- 0 0 value-2"},
			}},
		},
		"bytes arrive as they are": {
			upstream: "binary data should be reflected in volume",
			given: []object{{
				kind: configMapKind, name: "OBJECT", data: map[string]string{"data-1": "value-1"},
				binary: map[string][]byte{"dump.bin": {0xde, 0xca, 0xfe, 0xba, 0xd0, 0xfe, 0xff}},
			}},
			volumes: one(plain),
			want: files{
				"/config/data-1":   "-rw-r--r-- 0 0 value-1",
				"/config/dump.bin": "-rw-r--r-- 0 0 \xde\xca\xfe\xba\xd0\xfe\xff",
			},
		},
		"optional ConfigMaps come, change and go": {
			upstream: "optional updates should be reflected in volume",
			given:    beforeUpdates(configMapKind),
			volumes: []map[string]string{
				{"configMap": "OBJECT-delete", "optional": "true"},
				{"configMap": "OBJECT-update", "optional": "true"},
				{"configMap": "OBJECT-create", "optional": "true"},
			},
			want: filesBeforeUpdates(), edits: optionalUpdates(configMapKind),
		},
		"two volumes of a pod have the same ConfigMap": {
			upstream: "should be consumable in multiple volumes in the same pod",
			given:    theMap(), volumes: []map[string]string{plain, plain},
			want: every(mapData(), "-rw-r--r-- 0 0", "/config", "/config-2"),
		},
		"an immutable ConfigMap changes no more, and its files stay": {
			upstream: "should be immutable if `immutable` field is set",
			given:    theMap(), volumes: one(plain), want: every(mapData(), "-rw-r--r-- 0 0", "/config"), lock: configMapKind,
		},
		"a pod waits for its ConfigMap": {
			upstream: "Should fail non-optional pod creation due to configMap object does not exist",
			volumes:  one(map[string]string{"configMap": "OBJECT", "optional": "false"}),
			refused:  `configmap "OBJECT" not found`, mended: theMap(),
			want: every(mapData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a pod waits for a key of its ConfigMap": {
			upstream: "Should fail non-optional pod creation due to the key in the configMap object does not exist",
			given:    theMap(),
			volumes: one(map[string]string{
				"configMap": "OBJECT", "optional": "false", "items": "[{key: data-4, path: path/to/data-4}]",
			}),
			refused: "configmap references non-existent config key: data-4",
			mended:  []object{{kind: configMapKind, name: "OBJECT", data: map[string]string{"data-4": "value-4"}}},
			want:    files{"/config/path/to/data-4": "-rw-r--r-- 0 0 value-4"},
		},
	}
}

// secretScenarios are those of volumes of one Secret.
func secretScenarios() map[string]scenario {
	plain := map[string]string{"secret": "OBJECT"}
	return map[string]scenario{
		"every key is a file of mode 0644": {
			upstream: "should be consumable from pods in volume",
			given:    theSecret(), volumes: one(plain), want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"files have the default mode": {
			upstream: "should be consumable from pods in volume with defaultMode set [LinuxOnly]",
			given:    theSecret(), volumes: one(map[string]string{"secret": "OBJECT", "defaultMode": "0400"}),
			want: every(secretData(), "-r-------- 0 0", "/config"),
		},
		"a user reads by the fsGroup what the default mode keeps from others": {
			upstream: "should be consumable from pods in volume as non-root with defaultMode and fsGroup set [LinuxOnly]",
			given:    theSecret(), volumes: one(map[string]string{"secret": "OBJECT", "defaultMode": "0440"}),
			user: 1000, group: 1001, want: every(secretData(), "-r--r----- 0 1001", "/config"),
		},
		"a key is where its item says": {
			upstream: "should be consumable from pods in volume with mappings",
			given:    theSecret(), volumes: one(map[string]string{"secret": "OBJECT", "items": secretItem}),
			want: files{"/config/new-path-data-1": "-rw-r--r-- 0 0 value-1\n"},
		},
		"a key has the mode of its item": {
			upstream: "should be consumable from pods in volume with mappings and Item Mode set [LinuxOnly]",
			given:    theSecret(),
			volumes:  one(map[string]string{"secret": "OBJECT", "items": "[{key: data-1, path: new-path-data-1, mode: 0400}]"}),
			want:     files{"/config/new-path-data-1": "-r-------- 0 0 value-1\n"},
		},
		"a Secret of the same name in another namespace is another": {
			upstream: "should be able to mount in a volume regardless of a different secret existing with same name in different namespace",
			given:    append(otherSecret(), theSecret()...), volumes: one(plain),
			want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"two volumes of a pod have the same Secret": {
			upstream: "should be consumable in multiple volumes in a pod",
			given:    theSecret(), volumes: []map[string]string{plain, plain},
			want: every(secretData(), "-rw-r--r-- 0 0", "/config", "/config-2"),
		},
		"optional Secrets come, change and go": {
			upstream: "optional updates should be reflected in volume",
			given:    beforeUpdates(secretKind),
			volumes: []map[string]string{
				{"secret": "OBJECT-delete", "optional": "true"},
				{"secret": "OBJECT-update", "optional": "true"},
				{"secret": "OBJECT-create", "optional": "true"},
			},
			want: filesBeforeUpdates(), edits: optionalUpdates(secretKind),
		},
		"an immutable Secret changes no more, and its files stay": {
			upstream: "should be immutable if `immutable` field is set",
			given:    theSecret(), volumes: one(plain), want: every(secretData(), "-rw-r--r-- 0 0", "/config"), lock: secretKind,
		},
		"a pod waits for its Secret": {
			upstream: "Should fail non-optional pod creation due to secret object does not exist",
			volumes:  one(map[string]string{"secret": "OBJECT", "optional": "false"}),
			refused:  `secret "OBJECT" not found`, mended: theSecret(),
			want: every(secretData(), "-rw-r--r-- 0 0", "/config"),
		},
		"a pod waits for a key of its Secret": {
			upstream: "Should fail non-optional pod creation due to the key in the secret object does not exist",
			given:    theSecret(),
			volumes:  one(map[string]string{"secret": "OBJECT", "optional": "false", "items": "[{key: data_4, path: value-4}]"}),
			refused:  "references non-existent secret key: data_4",
			mended:   []object{{kind: secretKind, name: "OBJECT", data: map[string]string{"data_4": "value-4\n"}}},
			want:     files{"/config/value-4": "-rw-r--r-- 0 0 value-4\n"},
		},
	}
}

// otherSecret is one of OBJECT's name in another namespace.
func otherSecret() []object {
	data := map[string]string{"only-elsewhere": "of the other namespace\n"}
	return []object{{kind: secretKind, name: "OBJECT", data: data, elsewhere: true}}
}
