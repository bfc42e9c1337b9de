/**
 * One after the other, in the order they were asked for. For the transactions of an account, each of which then takes the
 * nonce that the chain expects. A nonce counted here, as by viem's nonce manager, goes wrong in ways that hold up all that
 * is sent later: it leaves a gap where one of several is refused, and is ahead of a chain that was set back.
 */
export function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  };
}
