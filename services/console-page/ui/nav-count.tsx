import { shortCount } from "./number.ts";

export type Waiting = { count: number; isAtLeast: boolean };

/** Shows beside the name of a page in the navigation how many of its items wait for an operator. */
export function NavCount({ waiting }: { waiting: Waiting | undefined }) {
  if (waiting === undefined || waiting.count === 0) return null;
  const { count, isAtLeast } = waiting;
  return (
    <>
      {" "}
      <span class="nav-count" title={`${isAtLeast ? "at least " : ""}${count}`}>
        {isAtLeast && <span class="hidden">at least </span>}
        {shortCount(count)}
        {isAtLeast && <span aria-hidden="true">+</span>}
        <span class="hidden"> {count === 1 ? "needs" : "need"} attention</span>
      </span>
    </>
  );
}
