// Watches by chokidar. Arguments: what is watched, the file that is read, and the directory of markers.
const fs = require('fs');
const path = require('path');
const chokidar = require('chokidar');

const [watched, file, markers] = process.argv.slice(2);
const print = (read) => fs.writeSync(1, fs.readFileSync(read, 'utf8') + '\n');

const volume = chokidar.watch(watched, { ignoreInitial: true }).on('all', () => print(file));
volume.on('ready', () => {
  const marker = chokidar.watch(markers, { ignoreInitial: true });
  marker.on('all', () => print(path.join(markers, 'marker')));
  marker.on('ready', () => fs.writeSync(1, 'ready\n'));
});
