// Words in texts: workers unpack the chunks and look, so that the page stays free however many texts there are.

/** What a worker runs. It keeps texts, in lower case, as far as they fit: only the first search unpacks them. */
function searcher() {
  const most = 150e6; // characters
  const known = new Map();
  let kept = 0;
  const read = async (id, packed) => {
    const texts = (await inflate(packed)).map(([text]) => text.toLowerCase());
    const size = texts.reduce((sum, text) => sum + text.length, 0);
    if (kept + size <= most) {
      known.set(id, texts);
      kept += size;
    }
    return texts;
  };
  self.onmessage = async ({ data: { id, packed, places, words } }) => {
    try {
      const texts = known.get(id) ?? (await read(id, packed));
      self.postMessage({ hits: places.map((place) => texts[place].includes(words)), keeps: known.has(id) });
    } catch (error) {
      self.postMessage({ failure: String(error) });
    }
  };
}

/** A worker, asked one question at a time. */
class Lane {
  constructor(address) {
    this.worker = new Worker(address);
    this.keeps = new Set();
    this.last = Promise.resolve();
    this.fail = () => {};
  }

  /** Stop the worker; whoever waits for its answer, or asks again, is told why. */
  end(error) {
    this.worker.terminate();
    this.fail(error);
    this.last = Promise.reject(error);
    this.last.catch(() => {}); // often nobody asks again
  }

  /** For each of these places in a chunk, whether its text holds the words. */
  ask(id, places, words) {
    this.last = this.last.then(
      () =>
        new Promise((done, fail) => {
          this.fail = fail;
          this.worker.onerror = (event) => fail(new Error(event.message || "a worker did not start"));
          this.worker.onmessage = ({ data: { hits, keeps, failure } }) => {
            if (failure) fail(new Error(failure));
            if (keeps) this.keeps.add(id);
            done(hits);
          };
          const packed = this.keeps.has(id) ? null : byId(id).textContent;
          this.worker.postMessage({ id, packed, places, words });
        }),
    );
    return this.last;
  }
}

let madeLanes = null;

/** As many workers as there are processors, up to four; made when somebody searches. */
function lanes() {
  if (!madeLanes) {
    const code = [bytesOf, inflate, `(${searcher})();`].join("\n");
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    madeLanes = Array.from({ length: Math.min(4, navigator.hardwareConcurrency || 1) }, () => new Lane(address));
  }
  return madeLanes;
}

/** One of these failed: the next search makes others. */
function dropLanes(failed, error) {
  for (const lane of failed) lane.end(error);
  if (madeLanes === failed) madeLanes = null;
}

const HIT = 1;
const MISS = 2;
let lastSearch = { number: -1, words: "", seen: null };

/** What is known of a run's samples before they are looked at: who lacked a part of the words lacks the words. */
function seenBefore(number, words) {
  const { words: before, seen } = lastSearch;
  if (lastSearch.number !== number || !words.includes(before)) return new Uint8Array(data.runs[number].size);
  return words === before ? seen : seen.map((one) => (one === MISS ? MISS : 0));
}

/**
 * Look for words in the problem, answers and completion of samples.
 *
 * @param found numbers of the samples.
 * @param tell is told, now and then and at the end, who was seen (HIT or MISS by number), and the share that was looked
 *   at; it returns false where nobody waits for more.
 */
async function search(number, found, words, tell) {
  const run = data.runs[number];
  const needle = words.toLowerCase();
  const seen = seenBefore(number, needle);
  lastSearch = { number, words: needle, seen };
  const holds = (text) => text !== null && text !== undefined && text.toLowerCase().includes(needle);
  const questions = await unpack("questions");
  const asked = data.problems.map(([, id], problem) => holds(id) || holds(questions[problem]?.[0]));
  const answered = data.answers.map(holds);
  const byChunk = new Map();
  let left = 0;
  for (const i of found) {
    if (seen[i]) continue;
    if (asked[run.problem[i]] || run.graders.some((grader) => answered[grader.answer[i]])) seen[i] = HIT;
    else {
      const chunk = chunkOf(run, i);
      if (!byChunk.has(chunk)) byChunk.set(chunk, []);
      byChunk.get(chunk).push(i);
      left++;
    }
  }
  const workers = left ? lanes() : [];
  const ways = workers.map(() => []);
  for (const chunk of byChunk.keys()) ways[chunk % ways.length].push(chunk);
  let told = performance.now();
  let goesOn = true;
  const work = async (worker, chunks) => {
    for (const chunk of chunks) {
      const members = byChunk.get(chunk);
      const places = members.map((i) => run.place[i] - run.starts[chunk]);
      const hits = await worker.ask(`text-${number}-${chunk}`, places, needle);
      members.forEach((i, one) => (seen[i] = hits[one] ? HIT : MISS));
      left -= members.length;
      if (left && goesOn && performance.now() - told > 150) {
        goesOn = tell(seen, 1 - left / found.length);
        told = performance.now();
      }
      if (!goesOn) return;
    }
  };
  try {
    await Promise.all(workers.map((worker, lane) => work(worker, ways[lane])));
  } catch (error) {
    dropLanes(workers, error);
    throw error;
  }
  if (goesOn) tell(seen, 1);
}
