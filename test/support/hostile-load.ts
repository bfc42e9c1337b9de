// Keeps hostile connections open to a gateway, and replaces each that ends. Usage: node … ADDRESS PATH CONNECTIONS
import { connect, type Socket } from "node:net";

const [, , address = "", path = "/", connections = "0"] = process.argv;
const { hostname: host, port } = new URL(`http://${address}`);

const MIB = 1024 * 1024;
const LARGE = Buffer.alloc(25 * MIB, "x");
const head = (framing: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Signature-256: ${"0".repeat(64)}\r\n${framing}\r\n\r\n`;

/** Behaviours of a connected socket. None of them ever sends a valid credential. */
const KINDS: ((socket: Socket) => void)[] = [
  function stallInHeaders(socket) {
    socket.write(`POST ${path} HTTP/1.1\r\nHos`);
  },
  function stallInBody(socket) {
    socket.write(head(`Content-Length: ${LARGE.length}`));
    socket.write(LARGE.subarray(0, 2 * MIB));
  },
  function dribble(socket) {
    socket.write(head("Transfer-Encoding: chunked"));
    const dribbling = setInterval(() => socket.write("1\r\nx\r\n"), 50);
    socket.once("close", () => clearInterval(dribbling));
  },
  function sitIdle(socket) {
    socket.write(`${head("Content-Length: 1")}x`);
  },
  function flood(socket) {
    socket.write(head(`Content-Length: ${LARGE.length}`));
    socket.write(LARGE);
  },
];

function open(i: number): void {
  const socket = connect({ host, port: Number(port), localAddress: `127.0.0.${2 + (i % 7)}` });
  socket.once("connect", () => KINDS[i % KINDS.length]?.(socket));
  socket.on("error", () => {}); // "close" follows
  socket.on("end", () => socket.destroy());
  socket.once("close", () => setTimeout(open, 20, i));
  socket.resume();
}

for (let i = 0; i < Number(connections); i++) open(i);
process.stdout.write(`${JSON.stringify({ event: "hostile.started" })}\n`);
