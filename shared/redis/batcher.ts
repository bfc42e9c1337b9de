/**
 * The most commands, or items of one command, that leave together. Without a limit, many replies that arrive at once would
 * cause one large batch, and this process and Redis would take turns to work instead of working side by side.
 */
export const BATCH_MAX = 16;

/**
 * Makes one command of many requests: the items requested within one turn of the event loop are gathered, up to BATCH_MAX,
 * and given to `ask` together. `ask` answers in the order of its items; if it fails, it fails for all of them.
 */
export function createBatcher<Item, Answer>(ask: (items: readonly Item[]) => Promise<readonly Answer[]>) {
  let open: Batch<Item, Answer> | undefined;

  function openBatch(): Batch<Item, Answer> {
    const items: Item[] = [];
    let send!: () => void;
    const sent = new Promise<void>((resolve) => {
      send = resolve;
    });
    const batch = { items, send, answers: sent.then(() => ask(items)) };
    setImmediate(() => close(batch));
    return batch;
  }

  function close(batch: Batch<Item, Answer>): void {
    if (open === batch) open = undefined;
    batch.send();
  }

  return async (item: Item): Promise<Answer> => {
    open ??= openBatch();
    const batch = open;
    const index = batch.items.push(item) - 1;
    if (batch.items.length === BATCH_MAX) close(batch);
    return (await batch.answers)[index] as Answer;
  };
}

type Batch<Item, Answer> = { items: Item[]; answers: Promise<readonly Answer[]>; send(): void };
