package volumefs

import "golang.org/x/sys/unix"

// SourceByPath returns the source of the mount that mountByPath finds for a target whose server is gone.
func SourceByPath(target string) (string, error) {
	m, err := mountByPath(target, unix.ENOTCONN)
	if err != nil {
		return "", err
	}
	return m.Source, nil
}
