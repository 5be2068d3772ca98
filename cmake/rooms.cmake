# orrery_room(NAME SOURCES file… [HEADERS file…] [PUBLIC target…] [PRIVATE target…])
#
# A room is a library. PUBLIC and PRIVATE name the rooms and libraries that it may use: PUBLIC those that its
# headers include, PRIVATE those that its sources alone include. HEADERS are its headers where a folder holds
# several rooms; without them, they are all headers of its folder. A room without sources has headers alone.
#
# Two checks hold these arrows: cmake/check_arrows.py compares them with what the files include, from the list
# in rooms.json of the build folder; and the preset `rooms` links each room as a shared library of its own.
function(orrery_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    set(scope PUBLIC)
    add_library(${name} ${ARG_SOURCES})
    set_target_properties(${name} PROPERTIES DEFINE_SYMBOL "") # one object file for both kinds of library
  else()
    set(scope INTERFACE)
    add_library(${name} INTERFACE)
  endif()
  target_compile_features(${name} ${scope} cxx_std_20)
  target_include_directories(${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:include/orrery>)
  target_link_libraries(${name} ${scope} ${ARG_PUBLIC})
  if(ARG_PRIVATE)
    target_link_libraries(${name} PRIVATE ${ARG_PRIVATE})
  endif()
  string(REPLACE "orrery_" "" export_name ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${export_name})

  string(JSON room SET "{}" name "\"${name}\"")
  string(JSON room SET "${room}" folder "\"${CMAKE_CURRENT_SOURCE_DIR}\"")
  foreach(list SOURCES HEADERS PUBLIC PRIVATE)
    string(TOLOWER ${list} key)
    list(TRANSFORM ARG_${list} REPLACE "^.+$" "\"\\0\"")
    list(JOIN ARG_${list} "," items)
    string(JSON room SET "${room}" ${key} "[${items}]")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY orrery_room_names ${name})
  set_property(GLOBAL APPEND PROPERTY orrery_rooms "${room}")
endfunction()

# Writes rooms.json, once all rooms are declared.
function(orrery_write_rooms)
  get_property(rooms GLOBAL PROPERTY orrery_rooms)
  list(JOIN rooms ",\n" rooms)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rooms.json CONTENT "[\n${rooms}\n]\n" @ONLY)
endfunction()
