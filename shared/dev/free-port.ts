import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/*
 * Below the range from which systems take the ports of outgoing connections: there, a client that keeps connecting to a
 * server which is being restarted may be given that server's own port, and the server cannot come back.
 */
const FIRST = 18_000;
const END = 32_000;
const TRIES = 100;

/** A port of 127.0.0.1, the preferred one if it is free, that was free a moment ago; who binds it may still lose a race and should then ask again. */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred !== undefined && (await canListen(preferred))) return preferred;
  for (let i = 0; i < TRIES; i++) {
    const port = randomInt(FIRST, END);
    if (await canListen(port)) return port;
  }
  throw new Error(`no free port found between ${FIRST} and ${END}`);
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
