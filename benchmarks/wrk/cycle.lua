-- A receive and an ack, each a request of its own. What counts is acks that were done.
local receipts = {}
local receive, queue = nil, os.getenv("QUEUE")
finished = 0

function setup(thread)
  one = thread
end

function init(args)
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["X-API-Key"] = os.getenv("KEY")
  receive = wrk.format("POST", "/v1/queues/" .. queue .. "/deliveries", nil, "{}")
end

function request()
  local receipt = table.remove(receipts)
  if receipt then
    return wrk.format("POST", "/v1/ack", nil, '{"receipts":["' .. receipt .. '"]}')
  end
  return receive
end

function response(status, headers, body)
  local receipt = string.match(body, '"receipt":"([^"]+)"')
  if string.find(body, '"outcome":"done"', 1, true) then
    finished = finished + 1
  elseif receipt then
    receipts[#receipts + 1] = receipt
  end
end

function done(summary, latency, requests)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d\n", one:get("finished"), summary.duration, bad))
end
