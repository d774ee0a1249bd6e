package realnode

import "testing"

func TestFreeRange(t *testing.T) {
	t.Parallel()
	const head = "Iface\tDestination\tGateway\tFlags\n"
	for routes, want := range map[string]string{
		head:                                    "10.98.0.0/24",
		head + "lo\t0100630A\t00000000\t0005\n": "10.98.0.0/24", // 10.99.0.1
		head + "veth1\t0200620A\t00000000\t0005\n":                                  "10.98.1.0/24",
		head + "veth1\t0200620A\t00000000\t0005\nveth2\t0301620A\t00000000\t0005\n": "10.98.2.0/24",
		head + "veth1\t0201620A\t00000000\t0005\n":                                  "10.98.0.0/24",
		head + "eth0\t00000000\t0101A8C0\t0003\nveth9\t6E00620A\t00000000\t0005\n":  "10.98.1.0/24",
	} {
		got, err := freeRange(routes)
		if got != want || err != nil {
			t.Errorf("freeRange(%q) = %q, %v, want %q", routes, got, err, want)
		}
	}
}
