# The player's module: the folders that check and simulate plans, compiled to WebAssembly, as the
# script ${module_script}, which is empty in a build without emscripten.
# It takes about a minute of one core, and only when these sources change.
set(module ${PROJECT_BINARY_DIR}/player)
set(module_script "")
set(module_code examples/pages/player/wasm)

if(PLAYER)
  # Libraries that are headers alone lie in a folder where all headers of this machine do, which are
  # not for WebAssembly.
  find_path(FMT_INCLUDE fmt/format.h REQUIRED)
  find_path(JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  file(MAKE_DIRECTORY ${module}/include)
  file(CREATE_LINK ${FMT_INCLUDE}/fmt ${module}/include/fmt SYMBOLIC)
  file(CREATE_LINK ${JSON_INCLUDE}/nlohmann ${module}/include/nlohmann SYMBOLIC)
  set(shims ${PROJECT_SOURCE_DIR}/${module_code}/shims)
  set(flags -std=c++20 -w -fwasm-exceptions -DNDEBUG -DFMT_HEADER_ONLY -I${PROJECT_SOURCE_DIR}
            -isystem ${shims} -isystem ${module}/include -include ${shims}/missing.h)

  # One source a folder: reading headers takes longer than compiling a file.
  set(objects "")
  foreach(folder parallel/plan parallel/schedules parallel/lowering parallel/verifier
                 parallel/simulation parallel/collectives parallel/codecs parallel/drawing
                 ${module_code})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
    if(folder STREQUAL "parallel/codecs")  # kinds of codecs, not what encodes
      list(FILTER sources EXCLUDE REGEX "/message_codec\\.cpp$")
    elseif(folder STREQUAL "parallel/collectives")  # lists, not what runs them
      list(FILTER sources EXCLUDE REGEX "/collective_run\\.cpp$")
    elseif(folder STREQUAL "parallel/drawing")
      list(FILTER sources INCLUDE REGEX "/(figure|palette)\\.cpp$")
    elseif(folder STREQUAL module_code)
      file(GLOB more CONFIGURE_DEPENDS player/*.cpp plan_facts.cpp fact_words.cpp
           breakdown_words.cpp time_steps.cpp)
      list(FILTER more EXCLUDE REGEX "page[^/]*\\.cpp$")
      list(APPEND sources ${more} ${PROJECT_SOURCE_DIR}/autograd/error.cpp)
    endif()
    list(TRANSFORM sources REPLACE "(.+)" "#include \"\\1\"\n")
    string(CONCAT sources ${sources})
    string(REPLACE "/" "_" name ${folder})
    set(batch ${module}/${name})
    set(optimize -O2)  # five times as fast as -Os, which is for what each plan passes once
    if(folder MATCHES "codecs|schedules|lowering|drawing$")
      set(optimize -Os)
    endif()
    file(CONFIGURE OUTPUT ${batch}.cpp CONTENT "${sources}")
    add_custom_command(OUTPUT ${batch}.o
      COMMAND ${EMXX} ${flags} ${optimize} -c ${batch}.cpp -o ${batch}.o
              -MD -MT ${batch}.o -MF ${batch}.d
      DEPENDS ${batch}.cpp ${shims}/missing.h DEPFILE ${batch}.d
      COMMENT "Compiling ${folder} to WebAssembly" VERBATIM)
    list(APPEND objects ${batch}.o)
  endforeach()

  # -g1 leaves the JavaScript as it is: Debian's minifier fails with some versions of Node. A Node
  # that is not Debian's does not look for acorn, which em++ needs, where Debian's package has it.
  set(here ${PROJECT_SOURCE_DIR}/${module_code})
  add_custom_command(OUTPUT ${module}/player.js BYPRODUCTS ${module}/module.js ${module}/module.wasm
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=$ENV{NODE_PATH}:/usr/share/nodejs
            ${EMXX} -Os -g1 -fwasm-exceptions ${objects} -o ${module}/module.js
            -sMODULARIZE -sEXPORT_NAME=plangradModule -sENVIRONMENT=web,worker,node
            -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB
            -sEXPORTED_FUNCTIONS=_player_answer,_malloc,_free --post-js ${here}/answer.js
    COMMAND ${NODE} ${here}/pack.js ${module}/module.js ${module}/module.wasm ${module}/player.js
    DEPENDS ${objects} ${here}/answer.js ${here}/pack.js COMMENT "Linking the plan player" VERBATIM)
  set(module_script ${module}/player.js)
  add_custom_target(plangrad_player_module DEPENDS ${module_script})  # waits for no library
  add_dependencies(plangrad_pages plangrad_player_module)
endif()
