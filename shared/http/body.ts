import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { BodyPieces } from "./body-pieces.ts";
import { lingerOnClose } from "./linger.ts";
import { ReadingTurns } from "./reading-turns.ts";
import { transferCodingProblem } from "./transfer-coding.ts";

/** What the reading of one body takes of a budget (body-budget.ts). */
type Lease = { take(bytes: number): void; arrived(bytes: number): void; release(): void };

/** Those of all bodies that this process reads. */
const turns = new ReadingTurns();

/** What becomes of the bytes of a body. */
type Sink<Whole> = {
  /** `isWhole` if this chunk is the whole body, as its declared length says. */
  add(chunk: Buffer, isWhole: boolean): void;
  /** After the last byte. What it throws refuses the body. */
  whole(): Whole;
  giveUp(): void;
};

type ReadOptions = {
  /** Counts the bytes as they arrive. A body that is refused releases it; the reader of a whole one does so in the end. */
  lease?: Lease | undefined;
  /** Sees the bytes as they arrive, in order, before the body is whole. It must not throw, and not keep them. */
  onBytes?: ((bytes: Buffer) => void) | undefined;
  /** Comes after the last byte. What it throws refuses the body before it is put together, which takes as much again. */
  onEnd?: (() => void) | undefined;
};

/**
 * Reads the request's bytes as they came, of any type and in any framing; no body is an empty buffer. Throws
 * `request.too_large`, from the declared length if there is one, else as soon as the limit is passed, and reads no further;
 * `request.transfer_coding_unsupported`, and reads nothing; `request.body_consumed` if somebody else has read of it. Rejects with the reason when the request is aborted.
 */
export function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  limitBytes: number,
  { lease, onBytes, onEnd }: ReadOptions = {},
): Promise<Buffer> {
  const pieces = new BodyPieces();
  return collect(req, res, limitBytes, {
    add(chunk, isWhole) {
      const taken = pieces.add(chunk);
      // A body that comes whole in its first chunk is counted once, when it has ended.
      if (!isWhole) lease?.take(taken);
      onBytes?.(chunk);
    },
    whole() {
      onEnd?.();
      const body = pieces.whole();
      lease?.arrived(body.length);
      return body;
    },
    giveUp() {
      pieces.giveUp();
      lease?.release();
    },
  });
}

/** Takes the bytes of a body that have arrived and that nobody has read, up to a bound. It waits for none. */
export function takeArrived(req: IncomingMessage, bytesMax: number): Buffer | undefined {
  const bytes = Math.min(req.readableLength, bytesMax);
  const taken: unknown = bytes === 0 ? undefined : req.read(bytes);
  return Buffer.isBuffer(taken) ? taken : undefined;
}

/** The SHA-256 of a body in hex, and its bytes, unless they are more than are kept. Refuses what `readBody` refuses. */
export async function readBodyUpTo(
  req: IncomingMessage,
  res: ServerResponse,
  { keptBytesMax, limitBytes }: { keptBytesMax: number; limitBytes: number },
): Promise<{ sha256: string; body: Buffer | undefined }> {
  const hash = createHash("sha256");
  const pieces = new BodyPieces();
  let bytes = 0;
  return collect(req, res, limitBytes, {
    add(chunk) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes <= keptBytesMax) pieces.add(chunk);
      else pieces.giveUp();
    },
    whole: () => ({
      sha256: hash.digest("hex"),
      body: bytes <= keptBytesMax ? pieces.whole() : undefined,
    }),
    giveUp: () => pieces.giveUp(),
  });
}

/** The SHA-256 of a body in hex. It keeps no byte, and refuses what `readBody` refuses. */
export function hashBody(req: IncomingMessage, res: ServerResponse, limitBytes: number): Promise<string> {
  const hash = createHash("sha256");
  return collect(req, res, limitBytes, {
    add: (chunk) => hash.update(chunk),
    whole: () => hash.digest("hex"),
    giveUp() {},
  });
}

async function collect<Whole>(
  req: IncomingMessage,
  res: ServerResponse,
  limitBytes: number,
  sink: Sink<Whole>,
): Promise<Whole> {
  const reason = abortReasons.get(req) ?? transferCodingProblem(req); // a server other than ours may let it pass
  if (reason !== undefined) throw reason;
  // No event would come any more.
  if (req.destroyed && !req.readableEnded) throw clientGone();
  const declared = declaredBytes(req);
  if (declared === 0 || isEmptyAndOver(req)) return sink.whole();
  if (isTaken(req)) throw bodyConsumed();
  assertDeclared(req, limitBytes);
  if (req.headers.expect !== undefined) res.writeContinue();
  return await new Promise((resolve, reject) => {
    let bytes = 0;
    /** Until it is over: the listeners stay as long as the request, and would hold the whole body by it. */
    let waiting: { resolve: typeof resolve; reject: typeof reject } | undefined = { resolve, reject };
    const fail = (reason: AppError): void => {
      if (waiting === undefined) return;
      turns.leave(req);
      sink.giveUp();
      waiting.reject(reason);
      waiting = undefined;
    };
    const stop = (reason: AppError): void => {
      req.removeAllListeners("data");
      req.pause();
      fail(reason);
    };
    req.once(ABORTED, stop);
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) {
        stop(tooLarge(limitBytes));
        return;
      }
      sink.add(chunk, bytes === declared && bytes === chunk.length);
      if (waiting !== undefined && bytes !== declared) turns.count(req, chunk.length);
    });
    req.on("end", () => {
      if (waiting === undefined) return;
      try {
        waiting.resolve(sink.whole());
        waiting = undefined;
      } catch (thrown) {
        fail(toAppError(thrown));
      }
    });
    req.on("error", (cause) => fail(clientGone(cause)));
    req.on("close", () => {
      if (!req.complete) fail(clientGone());
    });
  });
}

/** A chunked body without a byte, which somebody has seen to its end: nothing of it is missing, and no event would come. */
function isEmptyAndOver(req: IncomingMessage): boolean {
  return req.readableEnded && !req.readableDidRead;
}

/** Whether the host's program has the bytes, or some of them, or gets them in another form: what we read would not be the body. */
function isTaken(req: IncomingMessage): boolean {
  return req.readableDidRead || req.readableEncoding !== null || req.listenerCount("readable") > 0;
}

function bodyConsumed(): AppError {
  const detail =
    "the body was read before this handler, which needs its bytes: mount this handler before express.json() and every other body parser";
  return AppError.public("request.body_consumed", detail);
}

/** Throws `request.too_large` if the headers say so already. */
export function assertDeclared(req: IncomingMessage, limitBytes: number): void {
  const declared = declaredBytes(req);
  if (Number.isFinite(declared) && declared > limitBytes) throw tooLarge(limitBytes);
}

export function tooLarge(limitBytes: number): AppError {
  const detail = `the body is over ${limitBytes} bytes`;
  return AppError.public("request.too_large", detail);
}

function clientGone(cause?: unknown): AppError {
  return new AppError("request.malformed", {
    reason: "the client disconnected before the whole body arrived",
    cause,
  });
}

/** A body with a declared length up to this is drained, so that the connection can be used again. */
const DRAINED_BYTES_MAX = 64 * 1024;

/**
 * Prepares the answer to a request whose body will not be read. A short body is drained; after a large, unbounded or
 * aborted one the connection ends with the answer. Call it before the headers are written.
 */
export function leaveUnread(req: IncomingMessage, res: ServerResponse): void {
  if (req.complete || req.destroyed || declaredBytes(req) === 0) return;
  if (isWorthDraining(req)) {
    req.resume();
    return;
  }
  req.pause();
  res.shouldKeepAlive = false;
  lingerOnClose(req.socket);
}

/** The length of the body by the headers; without either header there is none (RFC 9112, section 6.3). */
function declaredBytes(req: IncomingMessage): number {
  if (req.headers["transfer-encoding"] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(req.headers["content-length"] ?? 0);
}

function isWorthDraining(req: IncomingMessage): boolean {
  if (req.headers.expect !== undefined || abortReasons.has(req)) return false;
  return declaredBytes(req) <= DRAINED_BYTES_MAX;
}

const ABORTED = Symbol("aborted");
const abortReasons = new WeakMap<IncomingMessage, AppError>();

/** Ends the reading of this request for good: `readBody` rejects with the reason, now and later. */
export function abortRequest(req: IncomingMessage, reason: AppError): void {
  abortReasons.set(req, reason);
  req.emit(ABORTED, reason);
}
