import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { BodyPieces } from "../../../../shared/http/body-pieces.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";

beforeAll(() => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
});
afterAll(() => {
  vi.useRealTimers();
});

const chunks = fc.array(
  fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 20 }),
    fc.integer({ min: 1, max: 70_000 }).map((length) => new Uint8Array(length).fill(1)),
  ),
  { maxLength: 60 },
);

test("a body consists of its chunks in order, even in blocks that another body has used", () => {
  fc.assert(
    fc.property(chunks, (given) => {
      const pieces = new BodyPieces();
      for (const chunk of given) pieces.add(Buffer.from(chunk));
      expect(pieces.whole().equals(Buffer.concat(given))).toBe(true);
    }),
  );
});

test("a body of several chunks has its own memory, and keeps no part of Node's buffer pool", () => {
  const pieces = new BodyPieces();
  for (const text of ["a", "b"]) pieces.add(Buffer.from(text));
  const whole = pieces.whole();
  expect([whole.toString(), whole.buffer.byteLength]).toEqual(["ab", 2]);
});

test("the reported memory of chunks covers their bytes, and is at most 1.5 times as much plus a few kilobytes", () => {
  fc.assert(
    fc.property(chunks, (given) => {
      const pieces = new BodyPieces();
      let taken = 0;
      let bytes = 0;
      for (const chunk of given) {
        taken += pieces.add(Buffer.from(chunk));
        bytes += chunk.length;
        expect(taken).toBeGreaterThanOrEqual(bytes);
        expect(taken).toBeLessThanOrEqual(1.6 * bytes + 8192);
      }
    }),
  );
});

test("a body in one chunk is that chunk, not a copy", () => {
  const chunk = Buffer.from("a webhook");
  const pieces = new BodyPieces();
  pieces.add(chunk);
  expect(pieces.whole()).toBe(chunk);
});

onlyInLongRun(() => {
  test("unused blocks are kept for the next body, at most 64 MiB of them, and dropped if no body needs them", async () => {
    // Loads the module again, because an earlier test may have left blocks and a real timer in it.
    vi.resetModules();
    const { BodyPieces, spareBytes } = await import("../../../../shared/http/body-pieces.ts");
    const read = (bodies: number) => {
      const reading = Array.from({ length: bodies }, () => new BodyPieces());
      for (const pieces of reading) for (let i = 0; i < 200; i += 1) pieces.add(Buffer.alloc(32 * 1024));
      for (const pieces of reading) pieces.discard();
    };
    read(20);
    expect(spareBytes()).toBe(64 * 1024 * 1024);
    vi.advanceTimersByTime(4999);
    read(1);
    vi.advanceTimersByTime(4999);
    expect(spareBytes()).toBe(64 * 1024 * 1024);
    vi.advanceTimersByTime(1);
    expect(spareBytes()).toBe(0);
  });
});
