// The informer of @kubernetes/client-node, over the config maps of one namespace.
//
//     node informer.mjs http://127.0.0.1:7450
//
// For each line that it reads it writes what it has, as a line of JSON: the informer's cache, a
// copy made from its events alone, and how it came to them.

import { createInterface } from 'node:readline';
import { CoreV1Api, KubeConfig, ListWatch, Watch } from '@kubernetes/client-node';

const namespace = 'default';
const config = new KubeConfig();
// The client speaks plain HTTP only to whom it need not verify.
const cluster = { name: 'listwatch', server: process.argv[2], skipTLSVerify: true };
config.loadFromClusterAndUser(cluster, { name: 'nobody' });
const api = config.makeApiClient(CoreV1Api);

const counts = { lists: 0, watches: 0, gone: 0 };
const copy = new Map();

/** The client's own, which also counts. */
class CountingWatch extends Watch {
    watch(path, query, callback, done) {
        counts.watches += 1;
        const count = (phase, object, line) => {
            if (phase === 'ERROR' && object.code === 410) counts.gone += 1;
            return callback(phase, object, line);
        };
        return super.watch(path, query, count, done);
    }
}

const informer = new ListWatch(
    `/api/v1/namespaces/${namespace}/configmaps`,
    new CountingWatch(config),
    async () => {
        const list = await api.listNamespacedConfigMap({ namespace });
        counts.lists += 1;
        return list;
    },
    false,
);
informer.on('add', (map) => {
    if (copy.has(map.metadata.name)) throw new Error(`added twice: ${map.metadata.name}`);
    copy.set(map.metadata.name, map);
});
informer.on('update', (map) => copy.set(map.metadata.name, map));
informer.on('delete', (map) => {
    if (!copy.delete(map.metadata.name)) throw new Error(`never added: ${map.metadata.name}`);
});
// As the client's documentation has it: it stops at an error, and goes on when it is started.
informer.on('error', (error) => {
    console.error(String(error));
    setTimeout(() => informer.start(), 100);
});
informer.start();

createInterface({ input: process.stdin })
    .on('line', () => {
        const cache = informer.list(namespace);
        const synced = counts.lists > 0;
        console.log(JSON.stringify({ synced, cache, copy: [...copy.values()], ...counts }));
    })
    .on('close', () => process.exit(0));
