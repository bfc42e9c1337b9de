import { createSocket } from "node:dgram";
import { once } from "node:events";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Returns the addresses of a name, for each query. An empty list means that the name does not exist. With undefined
 * the server does not answer.
 */
export type Answers = (name: string) => readonly string[] | undefined;

const A = 1;
const AAAA = 28;

/** Starts a DNS server on this machine, over UDP, at `127.0.0.1:port`. */
export async function startDnsServer(answers: Answers) {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (query, { port, address }) => {
    const { name, end, type } = readQuestion(query);
    asked.push(name);
    const found = answers(name);
    if (found === undefined) return;
    const fitting = found.filter((each) => isIPv4(each) === (type === A) && (type === A || type === AAAA));
    socket.send(answerTo(query.subarray(0, end), fitting, found.length === 0), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    /** The queried names, one for each query. */
    asked,
    close: () => new Promise<void>((resolve) => void socket.close(() => resolve())),
  };
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join("."), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** Builds an answer (RFC 1035, section 4): the question, and a record for each address, with a TTL of 0. */
function answerTo(question: Buffer, addresses: readonly string[], isUnknown: boolean): Buffer {
  const head = Buffer.from(question);
  head.writeUInt16BE(isUnknown ? 0x8183 : 0x8180, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((address) => {
    const bytes = Buffer.from(ipaddr.parse(address).toByteArray());
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(isIPv4(address) ? A : AAAA, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt16BE(bytes.length, 10);
    return Buffer.concat([record, bytes]);
  });
  return Buffer.concat([head, ...records]);
}
