import { createServer } from "node:net";
import { onFreePort } from "../../../shared/dev/free-port.ts";
import { useEnds } from "../../fixtures/ends.ts";

/** Header that decides where a body ends if a request has both. */
export const READINGS = ["by its length", "by its chunks"] as const;
type Reading = (typeof READINGS)[number];

type NaiveServer = { address: string; paths: string[] };

/**
 * Creates a server that refuses nothing, unlike a gateway. It accepts any encoding, uses the first length, reads on
 * after `Connection: close`, and records the path of everything it takes for a request.
 */
export function useNaiveServer(): (reading: Reading) => Promise<NaiveServer> {
  const ends = useEnds();
  return async (reading) => {
    const paths: string[] = [];
    const server = createServer((socket) => {
      let unread = "";
      socket.on("error", () => {}); // a proxy may reset the connection
      socket.on("data", (bytes) => {
        unread += bytes.toString("latin1");
        for (
          let next = takeRequest(unread, reading);
          next !== undefined;
          next = takeRequest(unread, reading)
        ) {
          unread = next.rest;
          paths.push(next.path);
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
      });
    });
    let address = "";
    await onFreePort((port) => {
      address = `127.0.0.1:${port}`;
      return new Promise<void>((resolve, reject) => {
        server.once("error", reject).listen(port, "127.0.0.1", resolve);
      });
    });
    ends.defer(() => server.close());
    return { address, paths };
  };
}

/** Returns the first request in these bytes, if it is complete. */
function takeRequest(bytes: string, reading: Reading): { path: string; rest: string } | undefined {
  const [head = "", ...after] = bytes.split("\r\n\r\n");
  const [, path] = /^\s*[A-Z]+ (\S+) HTTP\/1\.[01]/.exec(head) ?? [];
  if (path === undefined || after.length === 0) return undefined;
  const body = after.join("\r\n\r\n");
  const length = /^content-length[ \t]*:[ \t]*\+?(\d+)/im.exec(head)?.[1];
  const isEncoded = /^transfer-encoding[ \t]*:/im.test(head);
  const end =
    isEncoded && (length === undefined || reading === "by its chunks")
      ? endOfChunks(body)
      : Number(length ?? 0);
  return end === undefined || end > body.length ? undefined : { path, rest: body.slice(end) };
}

/** Returns the end of the chunks; undefined while the last one is missing. Bytes that are not chunks are not a body. */
function endOfChunks(body: string): number | undefined {
  for (let at = 0; ; ) {
    const [line, digits] = /^([0-9a-f]+)[^\r]*\r\n/i.exec(body.slice(at)) ?? [];
    if (line === undefined || digits === undefined) return body === "" || at > 0 ? undefined : 0;
    const size = Number.parseInt(digits, 16);
    at += line.length + size + 2;
    if (size === 0) return at;
  }
}
